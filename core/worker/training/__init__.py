"""What the training loops of all frameworks share.

- `controller`: the loop over epochs; decide what is done next: requests, checkpoints, early stopping, the learning rate
- `epoch_results`: what the epochs have given, and when to stop early
- `metrics_reporter`, `training_metrics`: report losses; which steps are measured on their training batches
- `checkpoint_store`: write and restore checkpoints, all ranks together
- `hosts`: carry the files of checkpoints between the machines of a run; check their link
"""
