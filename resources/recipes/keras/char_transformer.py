"""A small GPT that learns to write, character by character, from any text file (a shipped one if none is named)."""

from functools import partial

import keras
import tensorflow as tf
from _placed import Placed, in_turn
from _shared.text import vocabulary, windows
from keras import ops
from keras.layers import Dense, Dropout, Embedding, LayerNormalization, MultiHeadAttention

EPSILON = 1e-5  # as GPTs have it; Keras' own is a hundred times as much


def embedding(characters, width, context):
    """What each character is, and where it stands."""
    codes = keras.Input((context,), dtype="int32")
    places = ops.cumsum(ops.ones_like(codes), axis=1) - 1
    return keras.Model(codes, Embedding(characters, width)(codes) + Embedding(context, width)(places))


def block(width, heads, context, dropout):
    """Attention to the characters so far, then a small network for each alone; both add to what is there."""
    inputs = keras.Input((context, width))
    looked = LayerNormalization(epsilon=EPSILON)(inputs)
    looked = MultiHeadAttention(heads, width // heads, use_bias=False)(looked, looked, use_causal_mask=True)
    seen = inputs + Dropout(dropout)(looked)
    thought = LayerNormalization(epsilon=EPSILON)(seen)
    thought = Dense(4 * width, activation="gelu")(thought)
    thought = Dense(width)(thought)
    return keras.Model(inputs, seen + Dropout(dropout)(thought))


def head(characters, width, context):
    """How likely each character comes next."""
    return keras.Sequential([keras.Input((context, width)), LayerNormalization(epsilon=EPSILON), Dense(characters)])


def network(text, layers, *, heads, width, context, dropout):
    """What makes each part of the model, in order."""
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
        with tf.device(device):  # a part that is a model has its variables from when it is made
            made.append(Placed(make(), device))
    return keras.Sequential([keras.Input((context,), dtype="int32"), *made])


def train_data(text="", context=64):
    return windows(text, "train", context)


def val_data(text="", context=64):
    return windows(text, "val", context)


def loss():
    # Every position of every window is asked for the character that comes next.
    def per_window(target, output):
        return ops.mean(keras.losses.sparse_categorical_crossentropy(target, output, from_logits=True), axis=-1)

    return per_window


def optimizer(learning_rate=0.003):
    return keras.optimizers.Adam(learning_rate)


def metrics():
    def accuracy(target, output):
        return ops.mean(keras.metrics.sparse_categorical_accuracy(target, output), axis=-1)

    return {"accuracy": accuracy}
