"""A small GPT that predicts the next character of a text (any text file; one is included)."""

from functools import cache, partial
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from keras.layers import Dense, Dropout, Embedding, LayerNormalization, MultiHeadAttention

FILE = Path(__file__).resolve().parent.parent.parent / "data" / "founding.txt"

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
    characters = coded(text)[0]
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
    for number, make in enumerate(makers):
        device = devices[number * len(devices) // len(makers)]
        with tf.device(device):  # a part that is a model creates its variables here
            made.append(Placed(make(), device))
    return keras.Sequential([keras.Input((context,), dtype="int32"), *made])


def train_data(text="", context=64):
    return windows(text, "train", context)


def val_data(text="", context=64):
    return windows(text, "val", context)


def windows(text, part, context):
    """Return windows (items, context) of the characters of a text, as numbers, and the characters that come next.

    The last tenth of the text is for validation (`part` "val").
    """
    codes = coded(text)[1]
    cut = round(len(codes) * 0.9)
    codes = codes[cut:] if part == "val" else codes[:cut]
    items = (len(codes) - 1) // context
    if items < 1:
        raise ValueError(f"The text {text or FILE} is too short for a context of {context}. Use a longer text.")
    inputs, following = codes[: items * context], codes[1 : items * context + 1]
    return inputs.reshape(items, context), following.reshape(items, context)


@cache
def coded(text):
    """Return how many different characters a text file has, and its characters as numbers; "" is the included text."""
    path = Path(text).expanduser() if text else FILE
    try:
        content = path.read_text(encoding="utf-8")
    except OSError as error:
        raise OSError(f"The text {path} cannot be read: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"The text {path} is not in UTF-8. Save it in that encoding.") from error
    kinds, codes = np.unique(np.frombuffer(content.encode("utf-32-le"), "<u4"), return_inverse=True)
    return len(kinds), codes.astype(np.int64)


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
