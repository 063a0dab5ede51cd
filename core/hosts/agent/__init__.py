"""The process on the other machine, and what it can be asked for.

- `server`: the process, which answers requests on its input and output
- `abilities`: the table of what it can be asked for; the devices there, and what acts on runs
- `runs`: the runs there, and parts of their files
"""
