"""The detached process that owns one run. `python -m core.supervisor RUN_DIR` starts it.

- `supervisor`: the life of a run from its start to its end
- `claim`: lock the run directory; clear away what an earlier supervisor left
- `workers`, `jobs`: the processes of the run; what recipes and scripts do differently
- `stop_escalation`: stop workers step by step
- `guard`: the process that terminates what is left if the supervisor dies
- `device_log`, `software_record`: record the readings of the devices; the Python, its packages and the commit
- `monitor`, `stall`, `slowdown`, `unticked_devices`, `idle_devices`, `disk_watch`: watch memory, missing progress,
  devices that are slowed down, that were not ticked, or that were and are not used, and a full disk
"""
