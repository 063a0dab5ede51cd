"""Metrics of scripts: what an unchanged program prints or writes, turned into measurements.

- `process`: the process that reads them, as its supervisor sees it
- `collector`: what that process does
- `rank_reader`: everything one rank prints and writes
- `event_writer`: measurements as events
- `file_owners`: which files belong to this run
- `expression_trial`: try an expression on an existing log
- `common`: names, merging of sources, known steps
- `text`, `files`, `dialects`: read logs, metric files, and known ways of printing

The numbers come from programs we did not write. A reader takes only what it recognises, reports nothing
where it is in doubt, and never raises because of its input.
"""
