"""What the events of a run say about it, measurements excepted.

- `run_facts`: the facts
- `fold`: fold events into them
- `states`: the states of a run and their transitions
- `verdicts`: the findings of the memory watch
- `model_parts`: which part of the model is on which device
"""
