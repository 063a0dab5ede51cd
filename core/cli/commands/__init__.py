"""The commands: each takes the parsed options and returns the exit code.

- `training`: start runs, control them, let them wait in the queue
- `runs`: list runs, show, compare, export and remove them
- `machine`: devices, hosts, Pythons, what can be trained, notifications, the desktop
- `common`: find the run that a command names, read the devices
"""
