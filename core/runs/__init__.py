"""A run seen through its directory.

- `directory`: create a run directory and start its supervisor
- `run`: one run: read it, ask it to stop, pause, save or resume
- `facts`: fold events into the facts of a run
- `states`: the states of a run and their transitions
- `verdicts`: what the memory watch found out
- `requests`: the request files below `control`
- `lock`: the lock that makes one supervisor the owner of a run
- `output_log`, `checkpoints`: what the workers printed and saved
- `index`, `removal`, `leftovers`: list, delete and clean up after runs
"""
