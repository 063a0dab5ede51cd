"""Run the Keras recipes and print results as JSON on the last line. test_workloads.py runs it in a worker pool."""

import importlib
import json
import sys
from importlib.util import find_spec
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "resources" / "recipes" / "keras"))

CPU = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(CPU, [tf.config.LogicalDeviceConfiguration()] * 2)

DEVICES = ["/cpu:0", "/cpu:1"]
SMALL = {"mnist_cnn": {"items": 48}, "mnist_mlp": {"items": 48}, "fashion_cnn": {"items": 48}}
TINY = {
    "char_transformer": {"layers": 1, "width": 16, "heads": 2, "context": 16},
    "shared_layer_lstm": {"steps": 6},
    "two_branch_lstm": {"steps": 6},
}
PRODUCTS = ("MatMul", "Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput", "BatchMatMulV2", "Einsum")


def settings_of(recipe, name, function):
    """Return the small settings that this recipe function takes."""
    names = getattr(recipe, function).__code__
    keywords = names.co_varnames[: names.co_argcount + names.co_kwonlyargcount]
    return {key: value for key, value in {**SMALL.get(name, {}), **TINY.get(name, {})}.items() if key in keywords}


def loss_of(recipe):
    if hasattr(recipe, "loss"):
        return recipe.loss()
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class Stepper:
    """Train one step with a TensorFlow gradient tape."""

    def __init__(self, recipe, model, *, is_placed=False):
        self.model, self.loss, self.optimizer = model, loss_of(recipe), recipe.optimizer()
        self.optimizer.build(model.trainable_variables)
        # A graph where operations have devices to be asked for; without one where tracing takes longer than training.
        self.step = tf.function(self._step) if is_placed else self._step

    def _step(self, inputs, target):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.loss(target, self.model(inputs, training=True)))
        self.optimizer.apply(tape.gradient(loss, self.model.trainable_variables), self.model.trainable_variables)
        return loss

    def products(self, inputs, target):
        """Return the devices on which the step's matrix products are computed; "" if a product is bound to none."""
        graph = self.step.get_concrete_function(inputs, target).graph
        return sorted({op.device[-1:] for op in graph.get_operations() if op.type in PRODUCTS})


def number(variable):
    return int(variable.value.device[-1])


def placed_facts(recipe, settings, start, inputs, target):
    keras.utils.set_random_seed(0)
    model = recipe.placed_model(DEVICES, **settings)
    same = all(np.array_equal(a, b.numpy()) for a, b in zip(start, model.trainable_variables, strict=True))
    stepper = Stepper(recipe, model, is_placed=True)
    losses = [float(stepper.step(inputs, target)) for _ in range(3)]
    return {
        "same_start": same,
        "losses": losses,
        "devices": [number(each) for each in model.trainable_variables],
        "slots": sorted({number(each) for each in stepper.optimizer.variables if each.shape.rank}),
        "products": [int(each) if each else "nowhere" for each in stepper.products(inputs, target)],
    }


def facts_of(name):
    recipe = importlib.import_module(name)
    settings = settings_of(recipe, name, "model")
    data = settings_of(recipe, name, "train_data")
    *inputs, target = recipe.train_data(**data)
    *val_inputs, val_target = recipe.val_data(**{key: data[key] for key in data if key != "items"})
    one = len(inputs) == 1
    first = tf.constant(inputs[0][:32]) if one else [tf.constant(each[:32]) for each in inputs]
    keras.utils.set_random_seed(0)
    model = recipe.model(**settings)
    built = model.built and len(model.trainable_variables) > 0
    start = [each.numpy() for each in model.trainable_variables]
    stepper = Stepper(recipe, model)
    labels = tf.constant(target[:32])
    losses = [float(stepper.step(first, labels)) for _ in range(3)]
    output = model(first)
    facts = {
        "losses": losses,
        "built": bool(built),
        "output": list(output.shape),
        "target": list(labels.shape),
        "accuracy": list(recipe.metrics()["accuracy"](labels, output).shape),
        "train_shapes": [each.shape[1:] for each in (*inputs, target)],
        "val_shapes": [each.shape[1:] for each in (*val_inputs, val_target)],
    }
    if hasattr(recipe, "placed_model"):
        facts["placed"] = placed_facts(recipe, settings, start, first, labels)
    if name == "digits_cnn":
        keras.utils.set_random_seed(0)
        model = recipe.model()
        model.compile(recipe.optimizer(), loss_of(recipe), jit_compile=False)
        model.fit(inputs[0], target, batch_size=64, epochs=5, verbose=0, shuffle=False)
        facts["val_accuracy"] = float(np.mean(model(val_inputs[0]).numpy().argmax(-1) == val_target))
    return facts


def recipes():
    names = "char_transformer digits_cnn digits_mlp fashion_cnn mnist_cnn mnist_mlp shared_layer_lstm two_branch_lstm"
    return {name: facts_of(name) for name in names.split()}


def mobilenet():
    import mobilenet_cats_dogs as recipe
    import tensorflow_datasets as tfds

    with tfds.testing.mock_data(num_examples=24):
        pictures, val = recipe.train_data(size=32), recipe.val_data(size=32)
        numbers = np.stack([picture.numpy() for picture, _ in pictures])
        model = recipe.model(size=32, width=0.35)
        model.compile(recipe.optimizer(), loss_of(recipe), run_eagerly=True)  # tracing takes longer
        history = model.fit(pictures.batch(12), verbose=0)
    return {
        "items": [int(pictures.cardinality()), int(val.cardinality())],
        "shape": list(numbers.shape[1:]),
        "least": float(numbers.min()),
        "most": float(numbers.max()),
        "steps": int(model.optimizer.iterations),
        "loss": history.history["loss"][0],
    }


def without_datasets():
    import mobilenet_cats_dogs as recipe

    sys.modules["tensorflow_datasets"] = None  # as if it were not installed
    try:
        recipe.train_data()
    except ModuleNotFoundError as error:
        return {"sentence": str(error)}
    return {"sentence": ""}


found = recipes()
if find_spec("tensorflow_datasets"):
    found["mobilenet"] = mobilenet()
print(json.dumps({**found, "without_datasets": without_datasets()}))
