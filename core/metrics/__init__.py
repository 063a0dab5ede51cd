"""Metrics of scripts: read what an unchanged program prints or writes.

- `process`: start, watch and end the process that collects a script's metrics
- `collector`: what that process does; which run writes a file
- `rank_metrics`: read everything one rank prints and writes, and write it as events
- `reread`: read the curves of a run again
- `rules`, `teaching`: rules by which the user says what numbers of a log are; make and try them
- `import_curves`: curves of other programs as runs
- `reading`: the data of all sources, and the names of metrics
- `merge`: several sources to one curve each
- `steps`: at which step of the training a value belongs
- `text`: read printed text
- `files`: read metric files
- `dialects`: known ways of printing

The numbers come from programs we did not write. A reader takes only what it recognises, returns nothing if in doubt,
and never raises because of its input.
"""
