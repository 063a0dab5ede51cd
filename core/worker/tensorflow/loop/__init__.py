"""What the strategies share.

- `common`: the loop over epochs, steps and validations
- `step`: what one device does in a step
- `devices`, `placing`: claim a worker's devices; put the parts of a model on several of them
- `saver`: write and read checkpoints
- `over_workers`: sums over all workers, and the bytes that they send each other
- `coordinator`: the chief of parameter servers
"""
