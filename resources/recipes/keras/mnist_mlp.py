"""A fully connected network that classifies handwritten digits of 28x28 pixels (MNIST, downloaded once)."""

import keras
from _data import mnist
from keras import layers


def model(hidden=128, dropout=0.0):
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Flatten(),
            layers.Dense(hidden, activation="tanh"),
            layers.Dropout(dropout),
            layers.Dense(hidden, activation="tanh"),
            layers.Dense(10),
        ]
    )


def train_data(items=60_000):
    return mnist("train", items)


def val_data(val_items=2_000):
    return mnist("val", val_items)


def optimizer(learning_rate=0.05, momentum=0.9):
    return keras.optimizers.SGD(learning_rate, momentum=momentum)


def metrics():
    return {"accuracy": keras.metrics.sparse_categorical_accuracy}
