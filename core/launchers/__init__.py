"""Ways to start processes of a run.

- `ranks`: which worker computes on which devices, the network interfaces and addresses at which workers meet
- `local`: start a worker of ours on this machine
- `loopback`: a network for the processes of one run, which no other process can reach
- `script`: start a user's program
- `notebook`, `recorded`: run a notebook as a program, or a script from a copy, under the user's Python
- `torch_store`: serve the store at which the PyTorch ranks of a script meet
- `export_model`: export a checkpoint as a model for other programs
"""
