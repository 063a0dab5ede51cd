"""What is trained: the parts of a recipe, as PyTorch needs them.

- `build`: make model, data and optimizer from a recipe
- `data`, `stream`: the batches of data sets, and of data that can only be read in order
- `nested`: batches of any shape
- `optimizers`: one or several optimizers; the recipe's learning rates
- `steps`: the steps that a recipe computes itself
- `training_metrics`: the recipe's metrics on training batches
"""
