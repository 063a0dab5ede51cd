"""The header of the shown run, and the list of runs.

- `header`, `run_buttons`, `state_pill`, `progress`: name, buttons, state and progress
- `run_list`, `run_menu`: all runs, and what can be done with one
"""
