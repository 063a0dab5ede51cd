"""A model cut into the stages of a pipeline.

`sources`: where a recipe's model can be cut. `trace`: models that are no sequence of layers. `cost`: what each layer
costs. `stage`: this rank's stage.
"""
