"""Ways to start processes of a run.

- `local`: which worker computes on which devices, and where workers meet; start a worker of ours on this machine
- `p2p`: the user's choice whether runs use direct access between GPUs
- `loopback`: a network for the processes of one run, which no other process can reach
- `script`: start a user's program
- `program`: run a notebook as a program, or a script from a copy, under the user's Python
- `torch_store`: serve the store at which the PyTorch ranks of a script meet
- `export_model`: export a checkpoint as a model for other programs
"""
