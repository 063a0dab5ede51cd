"""The machine whose runs are shown, and its devices. No widgets.

- `machine`, `host_machine`: this machine; a host, as the same contract
- `monitor`: the newest readings of its devices and of those of hosts
- `device_rows`, `host_devices`: devices in words; hosts, and their devices as they can be used now
- `start_check`, `script`: whether a training can start, or go on on other devices; what was typed for a script
"""
