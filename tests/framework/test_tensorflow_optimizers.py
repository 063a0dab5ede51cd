"""Several optimizers in turn in TensorFlow's own loop, and what `optimizers()` may not return there."""

import json
import re
from functools import partial
from pathlib import Path

import pytest

from core.config.choices import RecipeChoices, compose
from core.devices.cpu import cpu_devices
from tests.support.resuming import EVERY_STEP, broken_off, resumed
from tests.support.running import Followed, curves, train, write_recipe
from tests.support.small_runs import assert_same_curves, recipe_fixture, small_spec
from tests.support.worker_pool import WorkerPools

GAN = """
    import keras
    import numpy as np
    import tensorflow as tf
    from keras import layers

    class Part(keras.Sequential):
        def __init__(self, outputs, device):
            super().__init__([layers.Dense(16, activation="tanh"), layers.Dense(outputs)])
            self.device = device

        def call(self, inputs, training=None):
            with tf.device(self.device):
                return super().call(inputs, training=training)

    class Gan(keras.Model):
        def __init__(self, devices):
            super().__init__()
            self.generator = Part(6, devices[0])
            self.discriminator = Part(1, devices[1])

    def model():
        return Gan(("", ""))

    def placed_model(devices):
        return Gan(devices)

    def train_data():
        numbers = np.random.default_rng(7)
        real, noise = numbers.normal(2, size=(65, 6)), numbers.normal(size=(65, 4))
        # The noise comes with the data: drawn in the step, each replica would draw its own.
        return {"real": real.astype("float32"), "noise": noise.astype("float32")}

    def val_data():
        return train_data()

    def optimizers(model):
        return {
            "discriminator": (keras.optimizers.Adam(0.01), model.discriminator),
            "generator": (keras.optimizers.SGD(0.1, momentum=0.9), model.generator),
        }

    def entropy(logits, target):
        logits = tf.cast(logits, "float32")
        return tf.nn.sigmoid_cross_entropy_with_logits(tf.fill(tf.shape(logits), target), logits)

    def training_step(model, batch, optimizer):
        made = model.generator(batch["noise"])
        if optimizer == "generator":
            return tf.reduce_mean(entropy(model.discriminator(made), 1.0))
        real, judged = model.discriminator(batch["real"]), model.discriminator(made)
        loss = entropy(real, 1.0) + entropy(judged, 0.0)
        return {"loss": tf.reduce_mean(loss), "real": tf.reduce_mean(tf.sigmoid(real))}

    def validation_step(model, batch):
        return tf.reduce_mean(entropy(model.discriminator(model.generator(batch["noise"])), 1.0))
"""
"""65 items in batches of 16: the last batch has one item, so one of two devices has none."""
WEIGHTED = GAN.replace(
    """        return {"loss": tf.reduce_mean(loss), "real": tf.reduce_mean(tf.sigmoid(real))}
""",
    """        weight = tf.reduce_sum(tf.abs(batch["real"]), 1, keepdims=True)
        return {"loss": tf.reduce_sum(loss * weight) / tf.reduce_sum(weight), "weight": tf.reduce_sum(weight)}
""",
)
assert WEIGHTED != GAN
BY_HAND = """
    import json, runpy
    import core.worker.tensorflow
    import keras, tensorflow as tf
    recipe = runpy.run_path({recipe!r})
    data = recipe["train_data"]()
    keras.utils.set_random_seed(0)
    gan = recipe["model"]()
    gan.discriminator(gan.generator(data["noise"]))
    parts = recipe["optimizers"](gan)
    losses = {{name: [] for name in parts}}
    for name, rate in {rates!r}.items():
        parts[name][0].learning_rate = rate
    for epoch in range(2):
        order = tf.random.experimental.stateless_shuffle(tf.range(65), seed=[epoch, 0])
        for index in (order[start : start + 16] for start in range(0, 65, 16)):
            batch = {{name: tf.gather(values, index) for name, values in data.items()}}
            for name, (optimizer, part) in parts.items():
                with tf.GradientTape() as tape:
                    found = recipe["training_step"](gan, batch, name)
                    loss = found["loss"] if isinstance(found, dict) else found
                gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, part.trainable_variables), {clip})
                optimizer.apply(gradients, part.trainable_variables)
                losses[name].append(float(loss))
    print(json.dumps(losses))
"""
gan = recipe_fixture("gan", GAN)
spec = partial(small_spec, framework="tensorflow")


RATES = {"discriminator": 0.001, "generator": 0.01}
SETTINGS = {"learning_rate": 0.001, "gradient_clip": 0.05}
"""The rate of the first optimizer is set, and the other keeps its proportion."""


@pytest.fixture(scope="module")
def whole(gan: str, pools: object, tmp_path_factory: pytest.TempPathFactory) -> Followed:
    return train(spec(gan, checkpoints=EVERY_STEP, **SETTINGS), tmp_path_factory.mktemp("whole"))


@pytest.mark.slow
def test_each_optimizer_steps_with_the_gradients_of_its_own_pass(gan: str, whole: Followed, pools: WorkerPools) -> None:
    found = curves(whole)
    script = BY_HAND.format(recipe=gan, clip=SETTINGS["gradient_clip"], rates=RATES)
    wanted = json.loads(pools.run("tensorflow", script))
    for name in RATES:
        assert found[f"loss_{name}"] == pytest.approx(wanted[name], rel=1e-5)
    assert found["loss"] == pytest.approx([sum(pair) for pair in zip(*wanted.values(), strict=True)], rel=1e-5)
    assert len(found["real"]) == 10, "a metric of one of them, in each step"
    assert len(found["val_loss"]) == 2
    assert found["learning_rate"] == [pytest.approx(0.001)], "of the first"


@pytest.mark.parametrize(
    ("strategy", "accumulation"),
    [
        ("mirrored", 2),
        ("placement", 1),
        pytest.param("towers", 2, marks=pytest.mark.soak),
        pytest.param("central_storage", 1, marks=pytest.mark.soak),
        pytest.param("multi_worker_mirrored", 1, marks=pytest.mark.soak),
    ],
)
def test_several_optimizers_have_one_curve_on_one_and_on_two_devices(
    strategy: str, accumulation: int, whole: Followed, gan: str, runs_root: Path
) -> None:
    followed = train(spec(gan, strategy, accumulation=accumulation, **SETTINGS), runs_root)
    assert_same_curves(curves(followed), curves(whole), 1e-4)


@pytest.mark.soak
def test_weighted_steps_of_several_optimizers_have_one_curve(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, WEIGHTED)
    one, two = (curves(train(spec(recipe, name, accumulation=2), runs_root)) for name in ("single", "mirrored"))
    assert_same_curves(two, one, 1e-4)


@pytest.mark.slow
def test_several_optimizers_go_on_after_a_resume(whole: Followed, runs_root: Path) -> None:
    wanted, again = curves(whole), curves(resumed(broken_off(whole, 7, runs_root)))
    assert set(wanted) >= {"loss", "loss_discriminator", "loss_generator", "real", "val_loss"}
    for name in wanted.keys() - {"learning_rate"}:  # recorded when it differs from what this process recorded last
        assert again[name] == wanted[name], name


@pytest.mark.slow
def test_each_of_several_optimizers_has_a_scale_of_its_own(gan: str, runs_root: Path) -> None:
    followed = train(spec(gan, precision="float16"), runs_root)
    found = curves(followed)
    assert len(found["loss_generator"]) == 10
    assert found["loss_generator"][-1] != found["loss_generator"][0]


RETURNED = re.search(r"return (\{\n.*?\n        \})", GAN, re.DOTALL)[1]  # type: ignore[index]  # it is there
LAYER = "model.generator),"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            (RETURNED, "[]"),
            "optimizers() of wrong returned list. Return a dict of names and pairs of a Keras optimizer",
        ),
        (
            (RETURNED, "{'generator': keras.optimizers.Adam()}"),
            "returned a dict of ('generator': Adam). Return a dict of names and pairs",
        ),
        ((LAYER, "model),"), "The optimizers 'discriminator' and 'generator' of wrong share the parameter "),
        ((LAYER, "layers.Dropout(0.1)),"), "Optimizer 'generator' of wrong has no variables that can be trained."),
        ((LAYER, "[keras.Variable(1.0)]),"), "Optimizer 'generator' of wrong has a parameter that is not one of"),
        (
            ('if optimizer == "generator"', 'if optimizer == "maker"'),
            "No parameter of optimizer 'generator' got a gradient from training_step(model, batch, 'generator').",
        ),
    ],
)
def test_optimizers_that_cannot_be_used_are_named(change, words, runs_root, tmp_path) -> None:
    assert change[0] in GAN
    source = GAN.replace(*change)
    if words.startswith("No parameter"):
        source = source.replace("entropy(judged, 0.0)", "entropy(tf.stop_gradient(judged), 0.0)")
    assert words in train(spec(write_recipe(tmp_path, source, "wrong"), epochs=1), runs_root).failure


def test_fit_of_keras_refuses_several_optimizers_before_the_start(gan: str) -> None:
    choices = RecipeChoices(recipe=gan, devices=("cpu:0",), framework="keras", strategy="single")
    with pytest.raises(ValueError, match=r"cannot be used: Keras' fit has one optimizer\. Choose framework tensorflow"):
        compose(choices, cpu_devices())
