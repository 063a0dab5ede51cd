"""A model cut into the stages of a pipeline, and the batches that flow through them.

`sources`: where a recipe's model can be cut. `trace`: models that are no sequence of layers. `cost`: what each layer
costs. `cut`: where the cut is best. `stage`: this rank's stage. `flow`: training and validation through all stages.
"""
