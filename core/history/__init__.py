"""All runs below a folder: list them, search, mark and delete them.

- `summary`, `summary_cache`: the summary of a run for a list, with the one loss by which runs are compared; summaries
  in the user's cache folder
- `index`: list the runs below a folder, and find one by name
- `differences`: what makes a run different from others, in words that name it
- `search`: find runs by words and conditions, and sort them
- `marks`: name, star, tags, notes and archiving, and the file that tells other lists of a change
- `removal`: find processes that runs have left behind; delete a run
- `trash`: runs that the window deleted, which can be restored for a week
- `device_use`: find the runs and other programs that use each device
"""
