"""What the window shows about a run that could be started.

- `start_check`: the spec, the problems, and what to know before the start
- `reading_check`: what the readings of the chosen devices say before a start
- `device_sharing`: the question before devices are shared
- `strategy_rows`, `python_rows`: the rows of two boxes
- `script_text`: the texts of the form for scripts
"""
