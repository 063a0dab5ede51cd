"""What the window shows, as plain data. No Qt in here.

- `setup`: a run that could be started
- `run`: the shown run
- `runs`: the list of runs
- `comparison`: several runs
- `devices`: devices and their processes
- `notifications`: the form of the settings of notifications, and what became of a test
- `program_report`: the libraries of the program, and the report that a user can copy
"""
