"""The commands of the command line: each takes the parsed options and returns the exit code. `core.cli` lists them."""
