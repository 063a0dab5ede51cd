"""What happened in a run, and why it failed, in words.

- `timeline`: what happened in a run, one line a thing, and the numbers of each epoch
- `start_phases`: what a run does before its first step: at the moment, and afterwards
- `evidence`: what a failed run recorded, taken apart
- `causes`: the table of causes: how each is recognised and told
- `failures`: why a run failed, in words
- `step_time`: where the time of the steps goes, and why they are slow
- `device_argument`: the number of a GPU among the arguments of a program
- `program_output`: the exception in what a Python program printed
- `terminal`: what a terminal would show of what a program printed
"""
