"""Keras' fit of one model whose layers are on several devices, in one process."""

from functools import partial

from _keras import fit
from _script import arguments
from _tensorflow import devices

places = devices()
recipe, *rest = arguments()
fit(recipe, partial(recipe.placed_model, places), *rest)
