"""What the training loops of the strategies share.

- `common`: the passes of a step, the optimizer's step, the training of a task
- `validation`: the validation, alone and on several ranks
- `distributed`: what loops of several ranks share
"""
