"""The header of the live run, its buttons, and the list of runs."""
