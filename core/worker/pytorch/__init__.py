"""PyTorch. A strategy of several processes has a file with `train(recipe, context)`.

- `strategies`: the strategies of one process, a function for each
- `task`: what is trained: model, data, optimizers and steps of a recipe
- `loop`, `distributed`: what the loops share: passes, updates, validation; what several ranks send each other
- `model`: a model on several devices, or with blocks that are computed twice or compiled
- `deferred`: a model without memory
- `cuts`, `stage`: where a model can be cut for a pipeline; this rank's stage
- `export`: write models
"""
