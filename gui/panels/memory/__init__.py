"""The tabs Memory and Processes.

- `memory_tab`, `memory_table`: who uses the memory of each device
- `verdict_table`, `remedy_list`: the memory verdicts of a run; what can be tried about them
- `processes_tab`: the processes on the devices
- `leftovers_strip`: processes that runs left behind
"""
