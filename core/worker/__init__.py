"""The code that runs inside a training process: the standard library and one framework, nothing else.

The supervisor starts one process per rank. There, in this order: `boot` is run by its path and loads this package under
a private name, so that an interpreter without Trainyard can train (hence relative imports and Python 3.10 syntax).
`main` starts the dead-man switch (`deadman`), pins the process to its cores and calls `train(recipe, context)` of the
strategy's module, such as `pytorch.ddp`. That module holds the training loop: one file per framework and strategy. A
loop uses `recipe` (the user's file), `controller` (epochs, requests, checkpoints), `epoch_results` (what the epochs
have given; early stopping), `metrics_reporter` (losses), `metric_schedule` (which steps are measured on their training
batches), `checkpoint_store`, `schedule` (the learning rate), `skipped_steps` (of float16), `steps` (a recipe's own
training step), `streams` (data that can only be read in order) and `epoch_end` (the recipe's `on_epoch_end`). `fetch`
calls a recipe's functions, so that they download their data, before workers without a network load the recipe. Every
event goes through `context` into the rank's event file. `export` runs in a process of its own, started by `boot
--export`, and writes a trained model in a portable format.
"""
