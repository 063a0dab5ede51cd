"""The list of runs.

- `view`: the list, and the menus of its runs
- `history`: what stands around it: the search, marks, what is done with several runs, the queue
- `run_files`: rename, export and delete runs
- `bell`: ends that the user has missed
"""
