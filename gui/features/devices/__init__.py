"""The list of devices.

- `panel`: the card with the list, and what shows readings in it
- `sums`: the line of sums above the plots of the machine
- `rows`, `delegate`: the lines of the list, and how they are painted
- `health`: the dialog with the health of a GPU
- `chosen`: what is ticked and folded
"""
