"""TensorFlow's MultiWorkerMirroredStrategy, one process per device, each with its own TF_CONFIG."""

import tensorflow as tf
from _replicas import train_under
from _script import arguments
from _tensorflow import devices

devices()
strategy = tf.distribute.MultiWorkerMirroredStrategy()
train_under(strategy, *arguments(), tells=strategy.cluster_resolver.task_id == 0)
