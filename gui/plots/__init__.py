"""The plots of the window.

- `registry`: one row per plot
- `picture`, `description`: a plot as a picture and as text; its curves in sentences
- `svg_to_png`: a process that makes pictures of the drawings of commands
- `plot_area`: all plots, with linked time axes
- `card`, `base`: the base class of all plots, and that of the plots of one run
- `loss`, `loss_controls`, `smoothing`: the plot of a metric, and its controls
- `compared`, `comparison`, `compared_readings`: what the plots of several runs share; a metric, readings of devices
- `comparison_controls`: the controls of the plot of several runs
- `family`, `ranks`, `y_range`: a metric with its validation, its band over ranks, and its range
- `device_plots`, `utilisation`: what all plots of devices share, with the memory; the utilisation, also as strips
- `hardware_plots`: temperature, power and clock, which are shown on request
- `scaling`: the speed-up of a scaling table, in a view of its own
- `slowdowns`: when devices were slowed down
"""
