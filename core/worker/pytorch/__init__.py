"""PyTorch. A strategy of several processes has a file with `train(recipe, context)`.

- `strategies`: the strategies of one process, a function for each
- `task`: what is trained: model, data, optimizers and steps of a recipe
- `loop`: what the loops share: passes, updates, ranks, checkpoints
- `model`: a model without memory, on several devices, or with blocks that are computed twice or compiled
- `stages`: a model that is cut for a pipeline
- `_errors`: explain PyTorch's errors
- `export`: write models
"""
