"""What the window shows about devices and their processes.

- `device_rows`: the rows of the device list, and which can be ticked
- `device_groups`: the headings of that list, and the CPU devices in one line
- `host_headings`, `host_devices`: hosts in words, and their devices as they can be used now
- `memory_bars`: how the memory of each device is divided
- `process_rows`: the table of processes
"""
