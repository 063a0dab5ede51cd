"""The log of the shown run.

- `page`, `view`, `terminal`, `files`: the tab, its text, what a terminal makes of it, the file
- `highlights`, `teach`: marked numbers; teach what a number is
"""
