"""Several runs: a comparison, and scaling tables.

- `controller`, `reader`, `runs`: the choice of the runs, the thread that reads them, their curves
- `view`, `rows`: their view, with their table; `plots`, `metric_plot`: the plots in it
- `scaling`, `scaling_tables`: scaling tables
"""
