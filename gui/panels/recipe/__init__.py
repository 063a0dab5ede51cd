"""The fields of the training card for recipes."""
