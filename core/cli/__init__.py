"""The command line.

- `commands`: the commands
- `shared`: what several commands use: options, choices, everything that is printed or asked
- `parser`: all of `commands`, with their options
- `__main__`: parse the arguments and run one command, or open the window
"""
