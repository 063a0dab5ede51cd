"""The plots of the window.

- `plot_area`: all plots, with linked time axes
- `registry`: one row per plot
- `card`, `base`: the base class of all plots, and that of the plots of one run
- `metrics`, `devices`: the plot of a metric of a run; those of its devices
- `comparison`: the plots of several runs, and of a scaling table
- `items`: the parts that plots are made of
- `picture`, `description`: a plot as a picture and as text; its curves in sentences
- `svg_to_png`: a process that makes pictures of the drawings of commands
"""
