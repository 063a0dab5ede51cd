"""The process on the other machine, and what it can be asked for.

- `server`: the process, which answers requests on its input and output
- `abilities`: the table of what it can be asked for
- `devices`: the devices there and their readings, and what uses the devices
- `runs`: the runs there, and parts of their files
- `control`: steer, rename, mark and remove runs there
"""
