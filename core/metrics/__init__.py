"""Metrics of scripts: read what an unchanged program prints or writes.

- `process`: start, watch and end the process that collects a script's metrics
- `collector`: what that process does
- `rank_reader`: read everything one rank prints and writes; when its log was written
- `event_writer`: write metrics as events
- `reread`: read the curves of a run again
- `teaching`: teach a run what a number of its log is
- `import_curves`: curves of other programs as runs
- `file_owners`: find out which run writes a file
- `common`: readings, metric names, merging of sources
- `text`: read printed text
- `files`: read metric files
- `dialects`: known ways of printing
- `rules`: rules by which the user teaches what numbers are

The numbers come from programs we did not write. A reader takes only what it recognises, returns nothing if in doubt,
and never raises because of its input.
"""
