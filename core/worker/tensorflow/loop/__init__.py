"""What the strategies share.

- `common`: the loop over epochs, steps and validations
- `step`: what one device does in a step
- `devices`, `placing`: claim a worker's devices; put the parts of a model on several of them
- `saver`: write and read checkpoints
- `coordinator`: the chief of parameter servers
"""
