"""Start agents on the nodes of the user's own Ray cluster. Only the driver and what it starts there load Ray.

- `addresses`: what leads to a cluster and to a node of it
- `carrier`: the command lines of the driver, and what its reports mean
- `cluster`: the nodes of a cluster, as hosts
- `driver`: a process here, in a Python with Ray, that passes on what the agent on the node reads and writes
- `reservation`: keep other users of the cluster off the devices of a run
- `reports`: what the driver says when it cannot go on
- `actor`: the actor on the node, whose child is the agent
- `keeper`: the agent's parent there, which removes the code in the end
- `archive`: our code, as it travels to the node
"""
