"""The code that runs inside the training process of a recipe.

It uses the standard library, one framework, numpy, `core.schema` and `core.language`, nothing else.

The supervisor starts one process per rank. There, in this order: `boot` is run by its path and loads this package under
a private name, so that an interpreter without Trainyard can train (hence relative imports and Python 3.10 syntax).
`main` starts the dead-man switch, pins the process to its cores and calls the strategy's function of the
recipe and the run, such as `train` of `pytorch.ddp`, or `single` of `pytorch.strategies`.

- `boot`, `main`: the way from the interpreter to the strategy; end the process group when the supervisor has ended;
  let a recipe download its data before workers without a network load it
- `pytorch`, `tensorflow`, `keras`: the strategies of each framework
- `training`: what the loops of all frameworks share: epochs, requests, checkpoints, reports
- `recipe`: import the user's file and call its functions, also between two epochs
- `steps`, `streams`: a recipe's own training step; data that can only be read in order
- `context`: what a loop knows about its run; every event goes through it into the rank's event file
- `errors`: what a framework's error means, and what to do
- `export`: write a trained model in a portable format, in a process of its own that is started by `boot --export`
"""
