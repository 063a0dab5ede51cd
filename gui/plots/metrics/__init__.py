"""The plot of a metric of one run.

- `loss`: the plot
- `loss_controls`, `smoothing`: its controls
- `family`, `ranks`: a metric with its validation, and its band over ranks
- `y_range`: the range of its values
"""
