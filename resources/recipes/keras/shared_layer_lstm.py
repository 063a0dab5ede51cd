"""Two LSTM branches on two devices that share one layer and are joined on the CPU (synthetic data).

Strategy placement calls `placed_model(devices)`. All other strategies call `model()`, which is the same model on one
device. Both have the same curve.
"""

import keras
from _placed import Placed
from _shared.pairs import pairs_of_waves
from keras import layers

HOST = "/cpu:0"


def network(steps, parts):
    """A layer that both waves go through, an LSTM for each wave, and two layers that join the two results."""
    shared, left, right, join, decide = parts
    inputs = [keras.Input((steps, 2)), keras.Input((steps, 2))]
    # Calling one layer twice shares its weights: the gradients of both calls add up.
    ended = layers.Concatenate()([left(shared(inputs[0])), right(shared(inputs[1]))])
    return keras.Model(inputs, decide(join(ended)))


def parts(hidden):
    return (
        layers.Dense(hidden, activation="tanh"),
        layers.LSTM(hidden),
        layers.LSTM(hidden),
        layers.Dense(hidden, activation="tanh"),
        layers.Dense(3),
    )


def model(hidden=32, steps=24):
    return network(steps, parts(hidden))


def placed_model(devices, hidden=32, steps=24):
    """A branch on each of two devices. The shared layer and the join are on the CPU."""
    chosen = HOST, devices[0], devices[-1], HOST, HOST
    return network(steps, [Placed(part, device) for part, device in zip(parts(hidden), chosen, strict=True)])


def train_data(items=2_000, steps=24):
    # The inputs come first, the target last: model([left, right]) is compared with the labels.
    return pairs_of_waves(1, items, steps)


def val_data(val_items=500, steps=24):
    return pairs_of_waves(2, val_items, steps)


def optimizer(learning_rate=0.005):
    return keras.optimizers.Adam(learning_rate)


def metrics():
    return {"accuracy": keras.metrics.sparse_categorical_accuracy}
