"""Metrics in printed text.

- `log`: from the bytes of a log to readings, in stages: the other modules; what each reading is of
- `printed_lines`: the lines that a terminal shows, and those that can contain a metric
- `statements`: what a line says by itself, or as a row of a table whose header came before
- `position`: where in the training a reading belongs
- `progress_bars`: each value of a redrawn bar once
- `expression`, `matching`: the user's own regular expression, matched in a process of its own
"""
