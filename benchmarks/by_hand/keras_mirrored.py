"""Keras' fit under MirroredStrategy."""

import tensorflow as tf
from _keras import fit
from _script import arguments
from _tensorflow import devices

strategy = tf.distribute.MirroredStrategy(devices())
recipe, *rest = arguments()
with strategy.scope():
    fit(recipe, recipe.model, *rest)
