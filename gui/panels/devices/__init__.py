"""The list of devices.

- `device_panel`: the list below a banner for driver problems
- `device_table`, `device_delegate`: the rows with their ticks, and their painting
"""
