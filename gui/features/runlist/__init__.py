"""The list of runs.

- `view`, `bars`, `menu`: the list, what stands around it, its menus
- `history`, `removal`, `export`, `queue`: what is done with runs
- `missed`, `bell`: ends that the user has missed
"""
