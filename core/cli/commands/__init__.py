"""The commands: each takes the parsed options and returns the exit code.

- `start`: `run`, `again`, `resume` and `attach`; `keep` a run as a preset, list them (`setups`), print its `command`
- `control`: `stop`, `pause` and `save` a run; why it hangs (`doctor`); the `queue`
- `scale`: train on 1, 2, 4, ... devices, and show what each gains
- `listing`: list, show, rename and mark runs, and print their logs
- `results`: compare runs, also as a report; export measurements or the model of runs to files
- `curves`: `import` curves of other programs; `reread` those of a script, or `try` an expression on its output
- `remove`: delete runs; `sweep` processes that runs have left behind
- `machine`: devices, recipes and strategies, Pythons
- `hosts`: other machines, and the agent that answers them
- `check`: prove this machine
- `notify`, `desktop`: notifications; the desktop's menu of programs
"""
