"""Several runs: a comparison, and scaling tables.

- `controller`, `reader`, `runs`: the choice of the runs, the thread that reads them, their curves
- `view`, `plots`, `metric_plot`: their curves; `table`, `rows`: their table
- `scaling`, `scaling_tables`, `scaling_dialogs`: scaling tables
"""
