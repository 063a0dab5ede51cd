"""The list of devices.

- `device_panel`: the lists below a banner for driver problems, and the buttons that tick several at once
- `machine_list`, `host_section`, `host_header`: the devices of hosts below those of this machine
- `device_table`, `device_delegate`, `row_sizes`: the rows with their ticks, their painting, and its sizes
- `cpu_fold`: the line that CPU devices are folded into
- `device_menu`: what can be done with one device
"""
