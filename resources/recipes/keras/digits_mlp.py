"""A fully connected network that classifies handwritten digits of 8x8 pixels."""

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

FILE = Path(__file__).resolve().parent.parent.parent / "data" / "digits.npz"


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


def digits(seed, part):
    """Return images (items, 8, 8, 1) of about zero mean and unit variance, and labels (items,).

    Of each digit, a fifth of the images is for validation (`part` "val"), drawn with `seed`.
    """
    with np.load(FILE) as data:
        images, labels = data["images"], data["labels"]
    order = np.random.default_rng(seed).permutation(len(labels))
    chosen = []
    for digit in range(10):
        members = order[labels[order] == digit]
        cut = round(len(members) / 5)
        chosen.append(members[:cut] if part == "val" else members[cut:])
    index = np.sort(np.concatenate(chosen))
    pixels = (images[index].astype(np.float32) - np.float32(4.88)) / np.float32(6.02)  # they are from 0 to 16
    return pixels[..., None], labels[index].astype(np.int64)


def optimizer(learning_rate=0.05, momentum=0.9):
    return keras.optimizers.SGD(learning_rate, momentum=momentum)


def metrics():
    return {"accuracy": keras.metrics.sparse_categorical_accuracy}


def placed(layers, devices):
    """Return the layers of a model, divided in order over the devices."""
    chosen = [devices[number * len(devices) // len(layers)] for number in range(len(layers))]
    return [Placed(layer, device) for layer, device in zip(layers, chosen, strict=True)]


class Placed(keras.layers.Wrapper):
    """A layer that has its variables on `device`, such as "/gpu:1", and computes there."""

    def __init__(self, layer, device):
        super().__init__(layer, name=layer.name)
        self.device = device

    def build(self, input_shape=None):
        with tf.device(self.device):
            super().build(input_shape)

    def call(self, inputs):
        # A device scope covers only the forward pass. The custom gradient sets the device of the backward pass.
        @tf.custom_gradient
        def forward(values):
            with tf.device(self.device), tf.GradientTape() as tape:
                if values.dtype.is_floating:
                    tape.watch(values)
                output = self.layer(values)

            def backward(change, variables=()):
                with tf.device(self.device):
                    return tape.gradient(output, [values, list(variables)], change)

            return output, backward

        return forward(inputs)

    def compute_output_shape(self, input_shape):
        return self.layer.compute_output_shape(input_shape)
