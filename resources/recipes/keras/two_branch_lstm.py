"""Two LSTMs, on two devices if placed so, that classify which of two waves swings faster (synthetic data)."""

import keras
from _placed import Placed
from _shared.pairs import pairs_of_waves
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
    return pairs_of_waves(1, items, steps)


def val_data(val_items=500, steps=24):
    return pairs_of_waves(2, val_items, steps)


def optimizer(learning_rate=0.005):
    return keras.optimizers.Adam(learning_rate)


def metrics():
    return {"accuracy": keras.metrics.sparse_categorical_accuracy}
