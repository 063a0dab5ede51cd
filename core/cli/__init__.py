"""The command line.

- `options`: the options of several commands, and the parser of their words
- `run_options`: how the options of `run` become choices; those of the queue
- `output`: everything that is printed, asked or written to a file
- `runs`: find the run that a command names, read the devices, follow a run to its end
- `logs`: read what the ranks of a run have printed, as lines
- `commands`: the commands
- `parser`: all of `commands`, with their options
- `__main__`: parse the arguments and run one command, or open the window
"""
