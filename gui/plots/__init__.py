"""The plots of one run, and what all plots share.

- `area`, `registry`: all plots with linked axes; one row per plot
- `card`, `run_plot`: the base class of all plots, and that of the plots of one run
- `loss`, `controls`, `ranks`, `metric_cards`: the plot of a metric, and the other metrics beside it
- `devices`, `utilisation`: the plots of the devices
- `items`: the parts that plots are made of
- `exports`: a plot as a picture; what a user exports, written on a thread
- `svg_to_png`: a process that makes pictures of the drawings of commands
"""
