"""What the events of a run say about it, measurements excepted.

- `run_facts`: the facts, with the findings of the memory watch, the parts of the model, the Python and its packages
- `fold`: fold events into them
- `states`: the states of a run and their transitions
"""
