"""What all sources share.

- `reading`: the data
- `names`: metric names
- `merge`: several sources to one curve each
- `steps`: at which step of the training a value belongs
"""
