"""What is trained: the parts of a recipe, as TensorFlow and Keras need them.

- `build`: make model, data, loss, optimizer and metrics from a recipe
- `data`, `stream`: the batches of arrays and data sets, and of data that are read item by item
- `optimizers`: one or several optimizers
- `steps`: the steps that a recipe computes itself; its metrics on training batches
- `step_times`: where the time of a step goes
- `saver`: write and read checkpoints
"""
