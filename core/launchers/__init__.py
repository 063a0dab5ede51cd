"""Ways to start processes of a run.

- `ranks`: who computes on which devices, and where workers meet
- `local`: start a worker of ours on this machine
- `script`: start a user's program
- `export_model`: write a checkpoint out as a model for other programs
"""
