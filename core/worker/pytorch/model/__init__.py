"""Change how a model is made and where it is.

- `deferred`: make a model without memory, and give each rank the values of its shards later
- `placing`: cut a sequence of layers; put the parts of a model on several devices
- `blocks`: compute the blocks of a model again in the backward pass, or compile them
"""
