"""Metrics from what an unchanged program prints or writes: each source one small file, all of them give `Reading`s.

The numbers here come from programs we did not write. A source therefore reads only what it recognises, says nothing
where it is in doubt, and never raises over what it is fed: rubbish is read as nothing.
"""
