"""Measurements as growing series.

- `min_max_tree`: a growing array, and minima, maxima and sums over its ranges
- `device_readings`: readings of devices before they become series
- `series`: one metric or device reading by step and time, and the mean that smooths a curve
- `interruptions`: the times in which a run did not train
- `run_series`: all series of a run, extended as events arrive; the loss by which it is compared with others
- `sketch`: some values of a long run, to be shown while it is read
- `run_cache`: long runs that were read, kept in the user's cache folder
- `report`: a run as one JSON document, and as CSV; a file that a user has asked for, written whole or not at all
"""
