"""Commands about runs that were started.

- `listing`: list and search runs (`runs`), `show`, `rename` or `mark` one
- `compare`, `report`: compare runs in a table; write a report on one or several
- `curves`: `try` an expression on the log of a run, `reread` its curves
- `imports`: `import` curves of other programs
- `export`, `remove`, `sweep`: a command each
"""
