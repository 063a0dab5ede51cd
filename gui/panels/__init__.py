"""The panels of the window. Each subpackage is a card, a tab or a family of dialogs.

- `setup`, `recipe`: the training card; in it the form for recipes
- `devices`: the list of devices
- `runs`: the list of runs
- `run`: the shown run
- `log`, `memory`: the tab Log; the tabs Memory and Processes
- `comparison`: what is below the curves of several runs; scaling tables
- `window`: menu bar, preferences and help
"""
