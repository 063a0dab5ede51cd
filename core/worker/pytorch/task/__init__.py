"""What is trained: the parts of a recipe, as PyTorch needs them.

- `build`: make model, data and optimizer from a recipe
- `data`, `stream`: the batches of data sets, of any shape, and of data that can only be read in order
- `optimizers`: one or several optimizers; the recipe's learning rates; the loss scale of float16
- `steps`: one forward and backward pass; the steps that a recipe computes itself; its metrics on training batches
- `step_times`: where the time of a step goes
- `saver`: write and read checkpoints
"""
