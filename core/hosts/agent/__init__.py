"""The process on the other machine, and what it can be asked for.

- `server`: the process, which answers requests on its input and output
- `registry`: all abilities
- `request`: one request of a connection
- `clock`: the time there
- `devices`, `uses`: the devices there and their readings; what uses them
- `runs`: the runs there, and parts of their files
- `control`: steer, rename, mark and remove runs there
"""
