"""The commands: each takes the parsed options and returns the exit code.

- `devices`, `catalog`, `pythons`: what this machine has to train on, and with
- `start`: `run`, `again`, `resume` and `attach`
- `queue`: the queued runs, and their order
- `control`: `stop`, `pause` and `save` a run
- `runs`: list and search runs, show, rename or `mark` one
- `compare`, `report`: compare runs in a table; write a report on one or several
- `scale`: train on 1, 2, 4, ... devices, and show what each gains
- `curves`: `try` an expression on the log of a run, `reread` its curves
- `presets`: `keep` a run as a preset, list them (`setups`), print a run's shell `command`
- `imports`: `import` curves of other programs
- `hosts`, `agent`: other machines; answer the Trainyard of another machine
- `notify`: notifications about runs
- `export`, `remove`, `sweep`, `desktop`: a command each
- `common`: find the run that a command names, read the devices
"""
