"""Metrics in printed text.

- `log`: from the bytes of a log to readings, in stages: the other modules
- `printed_lines`: the lines that a terminal shows, and those that can contain a metric
- `open_table`: what a line says by itself, or as a row of a table whose header came before
- `position`: where in the training a reading belongs
- `progress_bars`: each value of a redrawn bar once
- `roles`: what a reading is of: the training, a validation, a mean, settings
- `expression`, `matching`: the user's own regular expression, matched in a process of its own
"""
