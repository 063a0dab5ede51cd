"""The detached process that owns one run. `python -m core.supervisor RUN_DIR` starts it.

- `supervisor`: the life of a run from its start to its end
- `claim`: lock the run directory; clear away what an earlier supervisor left
- `companion`: what rooms add to a run; `core.companions` lists them
- `workers`, `jobs`: the processes of the run, and stopping them step by step; what recipes and scripts do differently
- `guard`: the process that terminates what is left if the supervisor dies
- `watches`, `monitor`: what a supervisor watches besides its workers: readings and use of the devices, progress, the
  disk; all watches over one start of a run
- `disturbances`: a companion that tells what disturbed a run
- `software_record`: record the Python, its packages and the commit
"""
