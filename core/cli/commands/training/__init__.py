"""Commands that start and control training.

- `start`: `run`, `again`, `resume` and `attach`
- `control`: `stop`, `pause` and `save` a run
- `queue`: the queued runs, and their order
- `scale`: train on 1, 2, 4, ... devices, and show what each gains
- `presets`: `keep` a run as a preset, list them (`setups`), print a run's shell `command`
"""
