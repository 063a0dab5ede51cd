"""The plots of several runs.

- `compared_plot`: what they share
- `comparison_plot`, `comparison_controls`: a metric, and its controls
- `compared_readings`: readings of devices
- `scaling_plot`: the speed-up of a scaling table, in a view of its own
"""
