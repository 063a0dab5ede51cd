"""Measurements as growing columns.

- `min_max_tree`: a growing array with a tree of minima and maxima over it
- `series`: one metric over its axes
- `run_series`: all series of a run, extended as events arrive
- `report`: a run as one JSON document, and as CSV
"""
