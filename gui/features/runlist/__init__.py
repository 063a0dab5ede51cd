"""The list of runs.

- `view`: the list, and the menus of its runs
- `history`: what stands around it: the search, marks, what is done with several runs
- `run_files`, `queue`: rename, export and delete runs; the queue
- `bell`: ends that the user has missed
"""
