"""The list of devices.

- `panel`: the card, and what shows readings in it
- `rows`, `view`, `delegate`: the lines of the list and what is ticked, their view, and how they are painted
- `hosts`: the user's list of hosts
"""
