"""PyTorch: one file per strategy, each with `train(recipe, context)`."""
