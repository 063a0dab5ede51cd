"""The part of the form for recipes."""
