"""The command line.

- `options`, `parse_choices`, `queue_options`: the options, and how those of `run` become choices; those of the queue
- `export_options`: the options that write tables, reports and plots to files
- `output`: everything that is printed or asked
- `follow`: show a run's progress until it ends
- `parser`: all of `commands`, with their options
- `__main__`: parse the arguments and run one command, or open the window
"""
