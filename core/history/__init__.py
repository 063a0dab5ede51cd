"""All runs below a folder: list them, search, mark and delete them.

- `summary`, `summary_cache`: a run in a line, with what was asked of it as named values; such lines in the user's cache
  folder
- `index`: list the runs below a folder, and find one by name
- `search`: find runs by words and conditions, and sort them
- `run_loss`: the one loss by which runs are compared
- `marks`: name, star, tags, notes and archiving, which users give to runs; other lists of runs are told of them
- `removal`: delete a run
- `leftovers`: find processes that runs have left behind
- `device_use`: find the runs and other programs that use each device
"""
