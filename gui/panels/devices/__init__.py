"""The list of devices.

- `device_panel`: the list below a banner for driver problems, and the buttons that tick several at once
- `device_table`, `device_delegate`, `row_sizes`: the rows with their ticks, their painting, and its sizes
- `cpu_fold`: the line that CPU devices are folded into
- `device_menu`: what can be done with one device
"""
