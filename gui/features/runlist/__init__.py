"""The list of runs.

- `view`: the list
- `menus`: the menus of one run and of several
- `history`: what stands around it: the search, marks, what is done with several runs, the queue
- `table`: all runs in the place of the plots, with their settings
- `run_files`: rename, export and delete runs
- `bell`: ends that the user has missed
"""
