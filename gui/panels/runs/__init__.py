"""The header of the shown run, and the list of runs.

- `header`, `run_buttons`, `progress`: name, state, buttons and progress
- `run_list`, `run_menu`: all runs, and what can be done with one
"""
