"""What the training loops of all frameworks share.

- `loop`: the loop over epochs, steps and validations
- `controller`: decide what is done next: epochs, requests, checkpoints, early stopping
- `epoch_results`, `epoch_end`: what the epochs have given, and when to stop early; the recipe's `on_epoch_end`
- `metrics_reporter`, `training_metrics`: report losses; which steps are measured on their training batches
- `checkpoint_store`: write and restore checkpoints, all ranks together
- `host_files`, `link_check`: carry the files of checkpoints between the machines of a run; check their link
- `schedule`: the learning rate
- `skipped_steps`: the steps of float16 that changed nothing
"""
