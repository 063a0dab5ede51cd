"""A small convolutional network that classifies handwritten digits of 8x8 pixels."""

import keras
from _data import digits
from _placed import placed
from keras import layers


def network(width, dropout):
    # Smooth throughout, in LeNet's manner: rounding stays rounding. With ReLU or max-pooling a unit at
    # its kink may switch by the last bit, and one device and two part ways after some fifty steps.
    return [
        layers.Conv2D(width, 3, padding="same", activation="tanh"),
        layers.Conv2D(2 * width, 3, padding="same", strides=2, activation="tanh"),
        layers.Flatten(),
        layers.Dropout(dropout),
        layers.Dense(64, activation="tanh"),
        layers.Dense(10),
    ]


def model(width=16, dropout=0.0):
    return keras.Sequential([keras.Input((8, 8, 1)), *network(width, dropout)])


def placed_model(devices, width=16, dropout=0.0):
    return keras.Sequential([keras.Input((8, 8, 1)), *placed(network(width, dropout), devices)])


def train_data(seed=0):
    return digits(seed, "train")


def val_data(seed=0):
    return digits(seed, "val")


def optimizer(learning_rate=0.05, momentum=0.9):
    return keras.optimizers.SGD(learning_rate, momentum=momentum)


def metrics():
    return {"accuracy": keras.metrics.sparse_categorical_accuracy}
