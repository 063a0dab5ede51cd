"""What all sources share.

- `reading`: the data, and the names of metrics
- `merge`: several sources to one curve each
- `steps`: at which step of the training a value belongs
"""
