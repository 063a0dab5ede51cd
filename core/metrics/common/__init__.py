"""What all sources share.

- `reading`: the data
- `names`: metric names
- `merge`: several sources to one curve each
- `rivals`: which of two sources of one metric has too few values
- `known_steps`: the steps that a training has reached, and when
"""
