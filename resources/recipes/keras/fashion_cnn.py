"""A convolutional network that classifies ten kinds of clothes (Fashion-MNIST, 28x28 pixels, downloaded once)."""

import keras
from _data import fashion
from keras import layers


def model(width=16, dropout=0.0):
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(width, 3, padding="same", activation="gelu"),
            layers.AveragePooling2D(2),
            layers.Conv2D(2 * width, 3, padding="same", activation="gelu"),
            layers.AveragePooling2D(2),
            layers.Conv2D(4 * width, 3, activation="gelu"),
            layers.Flatten(),
            layers.Dropout(dropout),
            layers.Dense(64, activation="gelu"),
            layers.Dense(10),
        ]
    )


def train_data(items=60_000):
    return fashion("train", items)


def val_data(val_items=2_000):
    return fashion("val", val_items)


def optimizer(learning_rate=0.001):
    return keras.optimizers.Adam(learning_rate)


def metrics():
    return {"accuracy": keras.metrics.sparse_categorical_accuracy}
