"""The plots of the window.

- `registry`: one row per plot
- `plot_area`: all plots, with linked time axes
- `base`: the base class of all plots
- `loss`, `loss_controls`, `ranks`: the plot of a metric, its controls, and the band over ranks
- `device_plots`: utilisation and memory
"""
