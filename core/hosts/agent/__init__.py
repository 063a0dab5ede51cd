"""The process on the other machine, and what it can be asked for.

- `server`: the process, which answers requests on its input and output
- `registry`: all abilities
- `request`: one request of a connection
- `parts`: train some ranks of a run of the other machine
- `clock`: the time there
- `devices`: the devices there, their readings, and what uses them
- `runs`: the runs there, and parts of their files
- `control`: steer, rename, mark and remove runs there
- `start`: examine choices there, and start runs
"""
