"""All runs below a folder: list them, search, mark and delete them.

- `summary`, `summary_cache`: the summary of a run for a list; summaries in the user's cache folder
- `index`: list the runs below a folder, and find one by name
- `search`: find runs by words and conditions, and sort them
- `run_loss`: the one loss by which runs are compared
- `marks`: name, star, tags, notes and archiving, and the file that tells other lists of a change
- `removal`: delete a run
- `leftovers`: find processes that runs have left behind
- `device_use`: find the runs and other programs that use each device
"""
