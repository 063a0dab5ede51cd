"""Metrics in printed text.

- `log`: from the bytes of a log to readings
- `printed_lines`: the lines that a terminal shows, and those that can contain a metric
- `open_table`: the rows of a table, whose header or first line came before
- `position`: where in the training a reading belongs
- `roles`: what a reading is of: the training, a validation, a mean, settings
- `progress_bars`: each value of a redrawn bar once
- `expression`, `matching`: the user's own regular expression, matched in a process of its own
"""
