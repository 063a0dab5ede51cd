"""What the window can do. A feature does not know the others: `gui.window` puts them together.

- `setup`, `devices`: what is trained, and on what
- `run`, `log`, `memory`: the shown run, its log, the memory of its devices
- `runlist`, `compare`: all runs; several of them
- `preferences`, `help`: preferences and notifications; documents, keys and the report about this program
- `hosts`: the list of hosts, and the window onto one
"""
