"""PyTorch: one file per strategy, each with `train(recipe, context)` and its training loop.

`_build` makes model, data and optimizer from a recipe, `_data` the batches, `_nested` those of any shape, `_stream`
those of a stream, `_optimizers` one or several optimizers, `_schedule` the recipe's learning rates, and `_steps` the
steps that a recipe computes itself. `_update` makes an optimizer's step, `_scaling` scales the loss for float16, and
`_training_metrics` measures the recipe's metrics on training batches.
`_loop` has what all loops share, `_distributed` what loops of several ranks share, `_saver` and `_fsdp_saver` the
checkpoints, `_placing` a model on several devices, `stages` a model cut for a pipeline. `_blocks` computes a model's
blocks twice or compiles them, `_deferred` makes a model without memory, `_compression` compresses gradients. `_errors`
explains PyTorch's errors, `export` writes models.
"""
