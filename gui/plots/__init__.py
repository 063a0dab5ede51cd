"""The plots of the window.

- `registry`: one row per plot
- `picture`: a plot as a picture and as text
- `plot_area`: all plots, with linked time axes
- `base`: the base class of all plots
- `loss`, `loss_controls`, `smoothing`, `ranks`, `y_range`: the plot of a metric, its controls, its band over ranks, and
  its range
- `device_plots`: utilisation and memory
"""
