"""The list of devices.

- `panel`: the card; `table`, `cpu_fold`, `delegate`: the devices of one machine; `sections`: those of a host
- `controller`, `hosts`, `hosts_dialog`: show readings; the user's list of hosts
"""
