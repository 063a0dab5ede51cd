"""What the training loops of the strategies share.

- `common`: the task, the passes of a step, validation, reports of the loss
- `update`, `scaling`: one step of an optimizer; scale the loss for float16
- `distributed`, `compression`: what loops of several ranks share; compress the gradients that they exchange
- `over_hosts`: what ranks on several machines do besides: meet, check their link, send bytes
- `saver`, `fsdp_saver`: write and read checkpoints, of whole and of sharded models
"""
