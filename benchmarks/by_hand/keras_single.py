"""Keras' fit on one device."""

from _keras import fit
from _script import arguments
from _tensorflow import devices

devices()
recipe, *rest = arguments()
fit(recipe, recipe.model, *rest)
