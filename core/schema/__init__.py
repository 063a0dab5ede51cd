"""What lies in a run directory.

All modules are also loaded inside workers: standard library only (orjson where it is installed), Python 3.10 syntax.

- `paths`: the name of every file and folder
- `codec`: dataclasses from JSON, checked field by field, and to JSON
- `setting`: how a setting is described, once for all that is made from it
- `settings`, `spec`: what was asked of a run, and of each of its workers
- `event_kinds`: all kinds of events, and their fields
- `events`: one event file: write it, read it as it grows
- `event_log`: all event files of a run, read whole or in slices with packed readings of devices
- `checkpoint`: checkpoints on disk
- `files`: open the files of a run safely, write files whole, and word why a path could not be written
"""
