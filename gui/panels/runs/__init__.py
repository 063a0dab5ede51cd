"""The header of the shown run, and the list of runs.

- `header`, `run_buttons`, `state_pill`, `progress`: name, buttons, state and progress
- `machine_entry`, `run_filter`: this machine; the field that searches the runs
- `run_list`, `run_delegate`, `run_menu`: the runs, how their rows are painted, and what can be done with one
- `several_menu`: what can be done with several runs at once
"""
