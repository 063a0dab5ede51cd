"""TensorFlow's MultiWorkerMirroredStrategy, one process per device, each told by TF_CONFIG who it is."""

import tensorflow as tf
from _replicas import train_under
from _script import arguments
from _tensorflow import devices

devices()
strategy = tf.distribute.MultiWorkerMirroredStrategy()
train_under(strategy, *arguments(), tells=strategy.cluster_resolver.task_id == 0)
