"""Measurements as growing series.

- `min_max_tree`: a growing array, and minima, maxima and sums over its ranges
- `device_readings`: readings of devices, and their means over time
- `series`: one metric or device reading by step and time, and the mean that smooths a curve
- `run_series`: all series of a run, extended as events arrive; the times in which it did not train; the loss by which
  it is compared with others
- `step_times`: where the time of steps went
- `long_runs`: those that were read, kept in the user's cache folder; a sketch, to be shown while one is read
- `recent`: the readings of a machine in the last hour, kept for the next window
- `report`: a run as one JSON document, and as CSV; a file that a user has asked for, written whole or not at all
"""
