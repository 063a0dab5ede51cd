"""Several runs: a comparison, and scaling tables.

- `controller`, `reader`, `runs`: which runs are compared, and what was read of them
- `view`, `plots`, `metric_plot`: their curves; `table`, `rows`: their table
- `scaling`, `scaling_tables`, `scaling_dialogs`: scaling tables
"""
