"""The machine whose runs the window shows: this one, or a host.

- `machine`: this machine: what runs are asked for, how choices are checked and runs started
- `host_machine`: the same for a host, through its agent
- `host_readings`: the readings of a host's devices
"""
