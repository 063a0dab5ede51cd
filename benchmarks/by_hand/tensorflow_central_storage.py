"""TensorFlow's CentralStorageStrategy, with a loop of its own."""

import tensorflow as tf
from _replicas import train_under
from _script import arguments
from _tensorflow import devices

places = devices()
strategy = tf.distribute.experimental.CentralStorageStrategy(compute_devices=places, parameter_device=places[0])
train_under(strategy, *arguments())
