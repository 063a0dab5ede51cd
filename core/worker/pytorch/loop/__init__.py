"""What the training loops of the strategies share.

- `common`: the task, the passes of a step, the training of a task
- `validation`: the validation, alone and on several ranks
- `update`, `scaling`: one step of an optimizer; scale the loss for float16
- `distributed`, `compression`: what loops of several ranks share; compress the gradients that they exchange
- `over_hosts`: what ranks on several machines do besides: meet, check their link, send bytes
- `saver`: write and read checkpoints
"""
