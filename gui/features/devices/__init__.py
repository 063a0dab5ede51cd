"""The list of devices.

- `panel`: the card; `rows`, `view`, `delegate`: the lines of the list, their view, and how they are painted
- `controller`, `hosts`, `hosts_dialog`: show readings; the user's list of hosts
"""
