"""A fully connected network that classifies handwritten digits of 8x8 pixels."""

import keras
from _data import digits
from _placed import placed
from keras import layers


def network(hidden, dropout):
    return [
        layers.Flatten(),
        layers.Dense(hidden, activation="tanh"),
        layers.Dropout(dropout),
        layers.Dense(hidden, activation="tanh"),
        layers.Dense(10),
    ]


def model(hidden=64, dropout=0.0):
    return keras.Sequential([keras.Input((8, 8, 1)), *network(hidden, dropout)])


def placed_model(devices, hidden=64, dropout=0.0):
    return keras.Sequential([keras.Input((8, 8, 1)), *placed(network(hidden, dropout), devices)])


def train_data(seed=0):
    return digits(seed, "train")


def val_data(seed=0):
    return digits(seed, "val")


def optimizer(learning_rate=0.05, momentum=0.9):
    return keras.optimizers.SGD(learning_rate, momentum=momentum)


def metrics():
    return {"accuracy": keras.metrics.sparse_categorical_accuracy}
