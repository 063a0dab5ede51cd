"""What all sources share.

- `reading`: the data
- `names`: metric names
- `merge`: several sources to one curve each
- `rivals`: which of two sources of one metric has too few values
- `second_trainings`: trainings that follow one another in one program
- `known_steps`: the steps that a training has reached, and when
"""
