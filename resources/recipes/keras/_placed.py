"""Put layers on devices."""

import keras
import tensorflow as tf


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


def in_turn(devices, parts):
    """Return a device for each of `parts` parts of a model: the first parts on the first device, and so on."""
    return [devices[part * len(devices) // parts] for part in range(parts)]


def placed(layers, devices):
    """Return the layers of a model, divided in order over the devices."""
    return [Placed(layer, device) for layer, device in zip(layers, in_turn(devices, len(layers)), strict=True)]
