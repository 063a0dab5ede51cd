"""What a supervisor watches besides its workers.

- `monitor`: all watches over one start of a run, from its first process to the release of its devices
- `progress_watches`: missing progress; devices that heat or a weak power supply slows down; a full disk
- `device_watches`: record the readings of the devices; find devices that are used and were not ticked, or that were
  ticked and are not used
"""
