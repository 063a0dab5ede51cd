"""What the training loops of all frameworks share.

- `controller`: the loop over epochs; decide what is done next: requests, checkpoints, early stopping, the learning rate
- `live`: answer what is asked meanwhile: other settings, and a trace
- `metrics`: what the epochs have given, when to stop early, and which steps are measured on their training batches
- `metrics_reporter`: report the losses of the steps
- `step_times`: measure where the time of a step goes
- `checkpoints`: write and restore checkpoints, all ranks together; carry their files between the machines of a run
"""
