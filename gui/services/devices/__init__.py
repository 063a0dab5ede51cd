"""The devices, and the processes on them.

- `device_monitor`, `host_monitor`: read the devices of this machine, and of the hosts
- `process_scanner`: find the processes on them
- `process_terminator`: end processes on request
- `leftover_scanner`: find what runs have left behind
"""
