"""Several runs: a comparison, and scaling tables.

- `controller`, `reader`: the choice of the runs; the thread that reads them, and what is drawn of them
- `view`, `rows`: their view, with their table; `plots`, `metric_plot`: the plots in it
- `scaling`, `scaling_tables`: scaling tables
"""
