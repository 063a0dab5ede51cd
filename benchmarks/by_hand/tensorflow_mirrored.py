"""TensorFlow's MirroredStrategy, with a loop of its own."""

import tensorflow as tf
from _replicas import train_under
from _script import arguments
from _tensorflow import devices

strategy = tf.distribute.MirroredStrategy(devices())
train_under(strategy, *arguments())
