"""The header of the shown run with its buttons, and the list of runs with its menu."""
