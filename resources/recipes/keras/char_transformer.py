"""A small GPT that predicts the next character of a text (any text file; one is included)."""

from functools import partial

import keras
import tensorflow as tf
from _placed import Placed, in_turn
from _shared.text import vocabulary, windows
from keras import ops
from keras.layers import Dense, Dropout, Embedding, LayerNormalization, MultiHeadAttention

EPSILON = 1e-5  # as in GPT; Keras' default is a hundred times larger


def embedding(characters, width, context):
    """Add an embedding of each character and one of its position."""
    codes = keras.Input((context,), dtype="int32")
    places = ops.cumsum(ops.ones_like(codes), axis=1) - 1
    return keras.Model(codes, Embedding(characters, width)(codes) + Embedding(context, width)(places))


def block(width, heads, context, dropout):
    """Attention to earlier characters, then a small network per character, each with a residual connection."""
    inputs = keras.Input((context, width))
    attended = LayerNormalization(epsilon=EPSILON)(inputs)
    attended = MultiHeadAttention(heads, width // heads, use_bias=False)(attended, attended, use_causal_mask=True)
    middle = inputs + Dropout(dropout)(attended)
    hidden = LayerNormalization(epsilon=EPSILON)(middle)
    hidden = Dense(4 * width, activation="gelu")(hidden)
    hidden = Dense(width)(hidden)
    return keras.Model(inputs, middle + Dropout(dropout)(hidden))


def head(characters, width, context):
    """Return logits of the next character."""
    return keras.Sequential([keras.Input((context, width)), LayerNormalization(epsilon=EPSILON), Dense(characters)])


def network(text, layers, *, heads, width, context, dropout):
    """Return functions that make the parts of the model, in order."""
    characters = vocabulary(text)
    return [
        partial(embedding, characters, width, context),
        *[partial(block, width, heads, context, dropout)] * layers,
        partial(head, characters, width, context),
    ]


def model(*, text="", layers=2, heads=4, width=64, context=64, dropout=0.0):
    made = [make() for make in network(text, layers, heads=heads, width=width, context=context, dropout=dropout)]
    return keras.Sequential([keras.Input((context,), dtype="int32"), *made])


def placed_model(devices, *, text="", layers=2, heads=4, width=64, context=64, dropout=0.0):
    makers = network(text, layers, heads=heads, width=width, context=context, dropout=dropout)
    made = []
    for make, device in zip(makers, in_turn(devices, len(makers)), strict=True):
        with tf.device(device):  # a part that is a model creates its variables here
            made.append(Placed(make(), device))
    return keras.Sequential([keras.Input((context,), dtype="int32"), *made])


def train_data(text="", context=64):
    return windows(text, "train", context)


def val_data(text="", context=64):
    return windows(text, "val", context)


def loss():
    # Every position of every window predicts the next character.
    def per_window(target, output):
        return ops.mean(keras.losses.sparse_categorical_crossentropy(target, output, from_logits=True), axis=-1)

    return per_window


def optimizer(learning_rate=0.003):
    return keras.optimizers.Adam(learning_rate)


def metrics():
    def accuracy(target, output):
        return ops.mean(keras.metrics.sparse_categorical_accuracy(target, output), axis=-1)

    return {"accuracy": accuracy}
