"""Two LSTMs, on two devices if placed so, that classify which of two waves swings faster (synthetic data)."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def network(steps, left, right, join, decide):
    """An encoder for each wave, and two layers that combine their outputs."""
    inputs = [keras.Input((steps, 2)), keras.Input((steps, 2))]
    ended = layers.Concatenate()([left(inputs[0]), right(inputs[1])])
    return keras.Model(inputs, decide(join(ended)))


def parts(hidden):
    return layers.LSTM(hidden), layers.LSTM(hidden), layers.Dense(hidden, activation="tanh"), layers.Dense(3)


def model(hidden=32, steps=24):
    return network(steps, *parts(hidden))


def placed_model(devices, hidden=32, steps=24):
    """The encoders on two devices, joined on the first."""
    first, second = devices[0], devices[-1]
    chosen = first, second, first, first
    return network(steps, *(Placed(part, device) for part, device in zip(parts(hidden), chosen, strict=True)))


def train_data(items=2_000, steps=24):
    return waves(1, items, steps)


def val_data(val_items=500, steps=24):
    return waves(2, val_items, steps)


def waves(seed, items, steps):
    """Return left and right waves (items, steps, 2), and labels (items,): the left one swings slower, as fast, faster.

    A wave is a noisy sine and cosine with a random phase. One wave alone does not determine the label.
    """
    random = np.random.default_rng(seed)
    pace = random.integers(0, 3, (2, items))
    pair = []
    for swings in np.take([0.10, 0.16, 0.22], pace):  # per step
        phase = 2 * np.pi * (swings[:, None] * np.arange(steps) + random.random((items, 1)))
        clean = np.stack([np.sin(phase), np.cos(phase)], axis=-1)
        pair.append((clean + random.normal(0, 0.2, clean.shape)).astype(np.float32))
    return *pair, np.sign(pace[0] - pace[1]) + 1


def optimizer(learning_rate=0.005):
    return keras.optimizers.Adam(learning_rate)


def metrics():
    return {"accuracy": keras.metrics.sparse_categorical_accuracy}


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
