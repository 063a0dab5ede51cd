"""The list of devices.

- `panel`: the card with the list, and what shows readings in it
- `rows`, `delegate`: the lines of the list, and how they are painted
- `chosen`: what is ticked and folded
"""
