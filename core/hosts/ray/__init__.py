"""Start agents on the nodes of the user's own Ray cluster. Only the driver and what it starts there load Ray.

- `driver`: a process here, in a Python with Ray, that sends our code to the node, and passes on what the agent there
  reads and writes
- `node`: the actor on the node, and the agent's parent there, which removes the code in the end
- `reports`: what the driver says when it cannot go on
"""
