"""What the commands share.

- `options`: the options of several commands, and the parser
- `run_options`: how the options of `run` become choices; those of the queue
- `export_options`: the options that write tables, reports and plots to files
- `output`: everything that is printed or asked
- `follow`: show a run's progress until it ends
- `lookup`: find the run that a command names, read the devices
"""
