"""What a supervisor watches besides its workers.

- `device_log`: record the readings of the devices
- `monitor`: all watches over one start of a run, from its first process to the release of its devices
- `stall`, `slowdown`: missing progress; devices that heat or a weak power supply slows down
- `unticked_devices`, `idle_devices`: devices that are used and were not ticked, or that were ticked and are not used
- `disk_watch`: a full disk
"""
