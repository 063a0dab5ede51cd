"""The list of runs.

- `run_list`, `run_delegate`: the runs, and how their rows are painted
- `run_menu`: what can be done with one run, and with several at once
- `several_bar`: the bar below the list while several are ticked
- `missed_button`: the bell in the header, and its list
- `machine_entry`, `run_filter`: this machine; the field that searches the runs
"""
