"""All runs below a folder: list them, search, mark and delete them.

- `summary`, `summary_cache`: a run in a line; such lines in the user's cache folder
- `index`: list the runs below a folder, and find one by name
- `search`: find runs by words and conditions, and sort them
- `run_loss`: the one loss by which runs are compared
- `setting_values`: what was asked of a run, as named values
- `marks`: name, star, tags, notes and archiving, which users give to runs
- `changed_runs`: tell other lists of runs which were marked or renamed
- `removal`: delete a run
- `leftovers`: find processes that runs have left behind
- `device_use`: find the runs and other programs that use each device
"""
