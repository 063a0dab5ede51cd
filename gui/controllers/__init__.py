"""Controllers connect panels, services and the core. Each serves one use case.

- `setup`: what is to be trained, on which devices, and its start
- `run`: the shown run
- `runs`: the list of runs, and what can be done with one or several of them
- `comparison`: several runs as curves and a table; scaling tables
- `window`: the window itself
"""
