"""Keras `fit`: the loss of each step, uneven batches, and pausing and resuming.

`test_matrix` compares the strategies. This process never imports Keras.
"""

import json
from functools import partial
from pathlib import Path

import pytest

from core.runs.facts import RunState
from core.runs.run import Run
from tests.support.running import Followed, curves, start, train, train_both, write_recipe
from tests.support.small_runs import recipe_fixture, small_spec
from tests.support.worker_pool import WorkerPools

AWKWARD = """\
    import time
    from pathlib import Path

    import keras
    import numpy as np
    import tensorflow as tf
    from keras import layers

    def model(dropout=0.0, nap_s=0.0, gates=""):
        regular = keras.regularizers.L2(1e-3)
        parts = [
            layers.Dense(8, activation="tanh", kernel_regularizer=regular), layers.Dropout(dropout), layers.Dense(3)
        ]
        return keras.Sequential([keras.Input((20,)), *([Nap(nap_s, gates)] if nap_s else []), *parts])

    class Nap(layers.Layer):
        '''Slow, and much slower in a validation. In a folder of gates, the file `train` lets a process go on that
        has trained some steps, and `validate` lets it validate after any.'''

        def __init__(self, nap_s, gates):
            super().__init__()
            self.nap_s, self.gates, self.steps = nap_s, gates, 0

        def call(self, inputs, training=False):
            gate = Path(self.gates) / ("train" if training else "validate")

            def nap():
                time.sleep(self.nap_s if training else 4 * self.nap_s)
                self.steps += training
                while self.gates and self.steps > (8 if training else 0) and not gate.exists():
                    time.sleep(0.01)

            awake = tf.numpy_function(nap, [], [])
            with tf.control_dependencies([awake]):
                return tf.identity(inputs)

    def made(items, as_dataset):
        generator = np.random.default_rng(items)
        inputs = generator.normal(size=(items, 20)).astype("float32")
        targets = (inputs[:, 0] > 0) * 1 + (inputs[:, 1] > 0.5)
        return tf.data.Dataset.from_tensor_slices((inputs, targets)) if as_dataset else (inputs, targets)

    def train_data(as_dataset=False):
        return made(65, as_dataset)

    def val_data(as_dataset=False, val_items=33):
        return made(val_items, as_dataset)

    def optimizer(learning_rate=0.05):
        return keras.optimizers.Adam(learning_rate)

    def metrics():
        return {"accuracy": keras.metrics.sparse_categorical_accuracy}
"""
"""65 items in batches of 16: the last batch of training and of validation has one item for two devices."""

BY_HAND = """
import json, sys
import keras, tensorflow as tf
sys.path.insert(0, sys.argv[1])
import awkward
keras.utils.set_random_seed(0)
model = awkward.model(dropout=0.5)
inputs, targets = awkward.train_data()
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
model.compile(awkward.optimizer(), loss, metrics=[accuracy], jit_compile=False)
found = {"loss": [], "val_loss": [], "val_accuracy": []}
for epoch in range(13):
    order = tf.random.experimental.stateless_shuffle(tf.range(65), seed=[epoch, 0]).numpy()
    for index in [order[at : at + 16] for at in range(0, 65, 16)]:
        found["loss"].append(float(model.train_on_batch(inputs[index], targets[index], return_dict=True)["loss"]))
    means = model.evaluate(*awkward.val_data(), batch_size=16, verbose=0, return_dict=True)
    found["val_loss"].append(float(means["loss"]))
    found["val_accuracy"].append(float(means["accuracy"]))
print(json.dumps(found))
"""

EPOCHS, STEPS = 13, 65

awkward = recipe_fixture("awkward", AWKWARD)
spec_of = partial(small_spec, framework="keras", epochs=EPOCHS)


def assert_close(found: dict[str, list[float]], wanted: dict[str, list[float]], relative: float) -> None:
    for metric in ("loss", "val_loss", "val_accuracy"):
        assert len(found[metric]) == {"loss": STEPS}.get(metric, EPOCHS)
        assert found[metric] == pytest.approx(wanted[metric], rel=relative), metric


@pytest.mark.slow
def test_loss_of_each_step_equals_hand_written_loop(runs_root: Path, awkward: str, pools: WorkerPools) -> None:
    followed = start(spec_of(awkward, settings={"dropout": 0.5}), runs_root)
    by_hand = json.loads(pools.run("tensorflow", BY_HAND, Path(awkward).parent))
    assert_close(curves(followed.until_over()), by_hand, 1e-6)


CLIPPED = {"gradient_clip": 0.2, "weight_decay": 0.1, "schedule": "cosine", "warmup_steps": 7}
READ = {"settings": {"as_dataset": True, "val_items": 15}}
"""The validation set is less than a batch, which two devices cannot share evenly."""


@pytest.fixture(scope="module")
def on_one_device(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Followed]:
    """The single-device runs that runs on two devices are compared with."""
    root = tmp_path_factory.mktemp("one")
    recipe = write_recipe(root, AWKWARD, "awkward")
    clipped, read = train_both(spec_of(recipe, **CLIPPED), spec_of(recipe, devices="cpu:1", **READ), root / "runs")
    return {"clipped": clipped, "read": read}


@pytest.mark.slow
def test_parts_of_a_batch_are_weighted_by_size(runs_root, awkward, on_one_device) -> None:
    wanted = curves(on_one_device["clipped"])
    for strategy, parts in (("mirrored", 4), ("placement", 2)):
        followed = train(spec_of(awkward, strategy, accumulation=parts, **CLIPPED), runs_root)
        assert_close(curves(followed), wanted, 1e-5)


@pytest.mark.slow
def test_tf_dataset_has_the_same_order_on_two_devices(runs_root, awkward, on_one_device) -> None:
    one = curves(on_one_device["read"])
    two = curves(train(spec_of(awkward, "mirrored", **READ), runs_root))
    assert_close(two, one, 1e-5)
    assert len(set(one["loss"])) == STEPS


@pytest.mark.slow
def test_pause_in_epoch_or_validation_does_not_change_results(runs_root: Path, tmp_path: Path, awkward: str) -> None:
    slow = {"settings": {"dropout": 0.5, "nap_s": 0.05}, "epochs": 3, "batch_size": 4, "schedule": "cosine"}
    slow["training_metrics"] = False  # how often they are measured depends on time
    uninterrupted = start(spec_of(awkward, devices="cpu:1", **slow), runs_root)

    gates = tmp_path / "gates"
    gates.mkdir()
    (gates / "train").touch()
    slow["settings"] |= {"gates": str(gates)}
    followed = start(spec_of(awkward, **slow), runs_root).until_trained(17)  # the validation waits
    followed.run.request("pause")
    (gates / "validate").touch()
    followed.until_over()
    assert (followed.state, followed.run.facts.step) == (RunState.PAUSED, 17)
    assert "val_loss" not in followed.run_series.metrics  # the pause interrupted the validation

    (gates / "train").unlink()
    again = Followed(Run.resume(followed.run.dir)).until_trained(18)  # the epoch waits
    again.run.request("pause")
    (gates / "train").touch()
    again.until_over()
    assert again.state is RunState.PAUSED
    assert 18 <= again.run.facts.step < 34
    assert again.run_series.metrics["val_loss"].count == 1  # the interrupted validation, none of the unfinished epoch

    resumed = Followed(Run.resume(followed.run.dir)).until_over()
    assert curves(resumed) == curves(uninterrupted.until_over())


@pytest.mark.slow
def test_custom_train_step_trains_on_one_device_and_is_refused_with_accumulation(runs_root, tmp_path) -> None:
    source = f"""{AWKWARD}
    class Own(keras.Sequential):
        def train_step(self, data):
            inputs, targets = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(inputs, targets, self(inputs, training=True))
            variables = self.trainable_variables
            self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
            return {{"loss": loss}}

    def model():
        return Own([keras.Input((20,)), layers.Dense(3)])
    """
    recipe = write_recipe(tmp_path, source, "own")
    trained, refused = train_both(spec_of(recipe), spec_of(recipe, accumulation=2, devices="cpu:1"), runs_root)
    assert len(curves(trained)["loss"]) == STEPS
    assert "with a train_step of its own, which cannot weight the parts of a batch" in refused.failure
