"""Keras' `fit` with a recipe's own `callbacks()` and steps, and with metrics of training batches."""

import csv
import json
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from core.runs.facts import RunState
from core.schema.paths import OUTPUTS
from tests.framework.test_documentation import documented
from tests.framework.test_keras import AWKWARD
from tests.framework.test_tensorflow_steps import MODEL, OWN, PLACE, SUPERVISED
from tests.support.resuming import EVERY_STEP, broken_off, resumed
from tests.support.running import Followed, curves, make_spec, train, train_both, write_recipe
from tests.support.small_runs import assert_same_curves, small_spec

EPOCHS, STEPS = 3, 5
EACH_BATCH = """
    class LooksAtBatches(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            assert np.isfinite(logs["loss"])

    def callbacks():
        return [LooksAtBatches()]
"""
"""With it, metrics are measured on every training batch."""
EACH_EPOCH = """
    import json

    class LooksAtEpochs(keras.callbacks.Callback):
        def __init__(self, folder):
            super().__init__()
            self.folder = folder

        def on_epoch_end(self, epoch, logs=None):
            with (self.folder / "told.jsonl").open("a") as file:
                file.write(json.dumps(logs) + "\\n")

    def callbacks(folder):
        return [
            keras.callbacks.ModelCheckpoint("last.weights.h5", save_weights_only=True),
            keras.callbacks.TensorBoard("board", write_graph=False), keras.callbacks.TerminateOnNaN(),
            LooksAtEpochs(folder),
        ]
"""
"""Callbacks that look at the metrics of epochs only."""

CALLED = f"""{AWKWARD}
    import json
    from keras import callbacks as of_keras

    class Told(of_keras.Callback):
        def __init__(self, folder):
            super().__init__()
            self.folder, self.batches = folder, []

        def on_train_batch_end(self, batch, logs=None):
            assert type(logs["loss"]) is float
            self.batches.append(batch)

        def on_epoch_end(self, epoch, logs=None):
            with (self.folder / "told.jsonl").open("a") as file:
                file.write(json.dumps({{"epoch": epoch, "batches": len(self.batches), **logs}}) + "\\n")

        def on_train_end(self, logs=None):
            best = keras.models.load_model(self.folder / "best.keras")
            inputs, _ = made(4, False)
            found = best(inputs)
            assert (self.folder / "board" / "train").is_dir() and best.count_params() == self.model.count_params()
            assert self.params["epochs"] == {EPOCHS} and np.isfinite(found).all()
            (self.folder / "loaded").touch()

    def callbacks(folder):
        return [
            of_keras.ModelCheckpoint("best.keras", monitor="val_loss", save_best_only=True),
            of_keras.CSVLogger("logs/epochs.csv"),
            of_keras.TensorBoard("board", write_graph=False),
            of_keras.LearningRateScheduler(lambda epoch, rate: 0.05 / 2**epoch),
            Told(folder),
        ]
"""
STOPS = """
    from keras import callbacks as of_keras

    class Breaks(of_keras.Callback):
        def __init__(self, at):
            super().__init__()
            self.at, self.done = at, 0

        def on_train_batch_end(self, batch, logs=None):
            self.done += 1
            if self.done == self.at:
                self.model.stop_training = True

    class Worse(of_keras.Callback):
        def on_train_end(self, logs=None):
            for weight in self.model.weights:
                assert np.isfinite(weight.numpy()).all()

    def callbacks(at=0):
        stopping = of_keras.EarlyStopping("accuracy", mode="min", patience=1, restore_best_weights=True)
        return [Breaks(at) if at else stopping, Worse()]
"""


spec_of = partial(small_spec, framework="keras", epochs=EPOCHS)


def told(followed: Followed) -> list[dict[str, Any]]:
    lines = (followed.run.dir / OUTPUTS / "told.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def rows(followed: Followed) -> list[dict[str, str]]:
    with (followed.run.dir / OUTPUTS / "logs" / "epochs.csv").open() as file:
        return list(csv.DictReader(file))


def check_numbers(followed: Followed, epochs: list[int]) -> None:
    """The callbacks were called with the numbers that the run has recorded."""
    found = curves(followed)
    for name in ("loss", "accuracy"):
        assert len(found[name]) == EPOCHS * STEPS
        means = [sum(found[name][at * STEPS : (at + 1) * STEPS]) / STEPS for at in epochs]
        assert [each[name] for each in told(followed)] == pytest.approx(means, rel=1e-5), name
    for name in ("val_loss", "val_accuracy"):
        assert [each[name] for each in told(followed)] == pytest.approx([found[name][at] for at in epochs], rel=1e-5)
    assert found["learning_rate"] == pytest.approx([0.05, 0.025, 0.0125])
    assert [float(row["loss"]) for row in rows(followed)] == [each["loss"] for each in told(followed)]


@pytest.mark.slow
def test_callbacks_are_called_and_write_below_outputs(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, CALLED, "called")
    followed = train(spec_of(recipe, checkpoints=EVERY_STEP), runs_root)
    check_numbers(followed, [0, 1, 2])
    assert [each["batches"] for each in told(followed)] == [STEPS, 2 * STEPS, 3 * STEPS]
    assert (followed.run.dir / OUTPUTS / "loaded").exists(), "the saved model could be loaded"

    again = resumed(broken_off(followed, STEPS + 2, runs_root))
    check_numbers(again, [0, 1, 2, 1, 2])
    assert [int(row["epoch"]) for row in rows(again)] == [0, 1, 2, 1, 2], "appended"
    notices = "\n".join(again.run.facts.notices)
    assert "The callbacks of called start from the beginning, because Keras does not save their state" in notices


@pytest.mark.slow
def test_callbacks_on_several_devices_and_their_end_of_the_training(runs_root: Path, tmp_path: Path) -> None:
    mirrored = train(spec_of(write_recipe(tmp_path, CALLED, "called"), "mirrored"), runs_root)
    check_numbers(mirrored, [0, 1, 2])
    recipe = write_recipe(tmp_path, AWKWARD + STOPS, "stops")
    early, middle = train_both(
        spec_of(recipe, epochs=50), spec_of(recipe, epochs=50, settings={"at": 7}, devices="cpu:1"), runs_root
    )
    steps = len(curves(early)["loss"])
    assert steps < 50 * STEPS
    assert early.run.facts.notices == (
        f"The callback EarlyStopping ended the training after step {steps}, in epoch {steps // STEPS}.",
    )
    assert len(curves(middle)["loss"]) == 7
    assert middle.run.facts.notices == ("The callback Breaks ended the training after step 7, in epoch 2.",)
    placed = train(spec_of(write_recipe(tmp_path, CALLED, "placed"), "placement"), runs_root)
    assert "Keras cannot save a whole model of the class PlacedSequential" in (placed.run.facts.error or "")


@pytest.mark.slow
def test_documented_callbacks_write_their_files(runs_root: Path, tmp_path: Path) -> None:
    source = AWKWARD + indent(documented("def callbacks"), "    ")
    followed = train(spec_of(write_recipe(tmp_path, source, "documented"), epochs=1), runs_root)
    assert followed.state is RunState.FINISHED
    files = {path.name for path in (followed.run.dir / OUTPUTS).iterdir()}
    assert files == {"best.keras", "epochs.csv", "done"}


WRONG = """
    from keras import callbacks as of_keras

    class Raises(of_keras.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise RuntimeError("no such epoch")

    def callbacks(which="list"):
        return {
            "list": of_keras.History(), "class": [of_keras.TerminateOnNaN], "text": ["history"],
            "backup": [of_keras.BackupAndRestore("there")], "rate": [of_keras.ReduceLROnPlateau()],
            "raises": [Raises()],
        }[which]
"""


@pytest.mark.parametrize(
    ("which", "words"),
    [
        ("list", "callbacks() of wrong returned History. Return a list of objects of keras.callbacks.Callback."),
        ("class", "callbacks() of wrong returned the class TerminateOnNaN in its list. Return a list of"),
        ("text", "callbacks() of wrong returned str in its list."),
        ("backup", "callbacks() has BackupAndRestore, but the run writes and restores its own checkpoints. Remove it."),
        ("rate", "callbacks() has ReduceLROnPlateau, which sets the learning rate, and so does the run's own schedule"),
        ("raises", "RuntimeError: no such epoch"),
    ],
)
def test_wrong_callbacks_are_named(which: str, words: str, runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, AWKWARD + WRONG, "wrong")
    schedule = {"schedule": "cosine"} if which == "rate" else {}
    followed = train(spec_of(recipe, epochs=1, settings={"which": which}, **schedule), runs_root)
    assert words in followed.failure
    assert (
        which != "raises" or 'in on_epoch_end\n    raise RuntimeError("no such epoch")' in followed.run.facts.traceback
    )


RARELY = """
    import sys

    sys.modules["_trainyard.worker.training.metrics"].BUDGET = 1e-9
"""
"""Lets metrics take hardly any of the time, so that not every step is measured, whatever it takes."""


@pytest.mark.slow
def test_metrics_are_measured_on_training_batches(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, AWKWARD + RARELY, "awkward")
    with_callbacks = write_recipe(tmp_path, AWKWARD + RARELY + EACH_BATCH, "called")
    every, off = train_both(
        spec_of(with_callbacks), spec_of(recipe, devices="cpu:1", training_metrics=False), runs_root
    )
    wanted = curves(every)
    assert len(wanted["accuracy"]) == EPOCHS * STEPS, "callbacks may decide by each batch"
    assert set(wanted["accuracy"][STEPS - 1 :: STEPS]) <= {0.0, 1.0}, "of a batch of one item, and no running mean"
    assert curves(off) == {name: values for name, values in wanted.items() if name != "accuracy"}
    for strategy, relative in (("single", 0.0), ("mirrored", 1e-4)):
        followed = train(spec_of(recipe, strategy, accumulation=1 + (strategy == "mirrored")), runs_root)
        found = curves(followed)
        steps = followed.run_series.metrics["accuracy"].steps.astype(int).tolist()
        assert steps[0] == 1
        assert 1 < len(steps) < EPOCHS * STEPS
        assert found.pop("accuracy") == pytest.approx([wanted["accuracy"][step - 1] for step in steps], rel=relative)
        for name, values in found.items():
            assert values == pytest.approx(wanted[name], rel=relative), name


@pytest.mark.slow
def test_callbacks_of_epochs_get_the_means_of_the_measured_steps(runs_root: Path, tmp_path: Path) -> None:
    """No callback looks at batches, so most are not measured; also after a resume in the middle of an epoch."""
    recipe = write_recipe(tmp_path, AWKWARD + RARELY + EACH_EPOCH, "called")
    followed = train(spec_of(recipe, checkpoints=EVERY_STEP), runs_root)
    again = resumed(broken_off(followed, STEPS + 2, runs_root))
    for run, epochs in ((followed, [0, 1, 2]), (again, [1, 2])):
        series = run.run_series.metrics["accuracy"]
        measured = dict(zip(series.steps.astype(int).tolist(), series.values.tolist(), strict=True))
        assert len(measured) < EPOCHS * STEPS
        for logs, epoch in zip(told(run)[-len(epochs) :], epochs, strict=True):
            own = [measured[step] for step in range(epoch * STEPS + 1, (epoch + 1) * STEPS + 1) if step in measured]
            assert logs["accuracy"] == pytest.approx(sum(own) / len(own))


SEVERAL_OUTPUTS = """
    import keras
    import numpy as np
    import tensorflow as tf

    def model():
        inputs = keras.Input((4,))
        hidden = keras.layers.Dense(8, "tanh")(inputs)
        return keras.Model(inputs, {"kind": keras.layers.Dense(2)(hidden), "size": keras.layers.Dense(1)(hidden)})

    def train_data(items=65):
        inputs = np.random.default_rng(0).normal(size=(items, 4)).astype("float32")
        return inputs, (inputs.sum(axis=1) > 0).astype("int64")

    def val_data():
        return train_data(33)

    def loss():
        def both(target, output):
            cross = keras.losses.sparse_categorical_crossentropy(target, output["kind"], from_logits=True)
            return cross + tf.square(output["size"][:, 0] - tf.cast(target, tf.float32))

        return both

    def metrics():
        return {"accuracy": lambda target, output: keras.metrics.sparse_categorical_accuracy(target, output["kind"])}
"""


@pytest.mark.slow
def test_model_of_several_outputs_has_the_curve_of_the_own_loop(runs_root: Path, tmp_path: Path) -> None:
    """Keras would want a loss for each output; the recipe's is one function of all of them."""
    recipe = write_recipe(tmp_path, SEVERAL_OUTPUTS, "several")
    choices = {"epochs": 2, "batch_size": 16}
    own = curves(train(make_spec(recipe, framework="tensorflow", devices="cpu:0", **choices), runs_root))
    for strategy in ("single", "mirrored"):
        followed = train(spec_of(recipe, strategy, **choices), runs_root)
        assert followed.state is RunState.FINISHED, followed.run.facts.error
        found = curves(followed)
        assert found["accuracy"][0] == pytest.approx(own["accuracy"][0])
        for name in ("loss", "val_loss", "val_accuracy"):
            assert found[name] == pytest.approx(own[name], rel=1e-4), (strategy, name)


TOKENS = f"""{MODEL}
    def train_data(items=33):
        numbers = np.random.default_rng(3)
        tokens = numbers.normal(size=(items, 8, 6)).astype("float32")
        return {{"padded": (tokens, numbers.integers(1, 9, items))}}

    def val_data():
        return tf.data.Dataset.from_tensor_slices(train_data(10))

    def training_step(model, batch):
        tokens, lengths = batch["padded"]
        mask = tf.sequence_mask(lengths, tf.shape(tokens)[1], tf.float32)
        target = tf.cast(tf.reduce_sum(tokens, -1) > 0, tf.int32)
        losses, count = cross_entropy(target, model(tokens)) * mask, tf.reduce_sum(mask)
        return {{"loss": tf.reduce_sum(losses) / count, "weight": count, "square": tf.reduce_sum(losses**2) / count}}
"""
"""33 sequences in batches of 16: the last batch has one, so one of two devices, and one of two passes, has none."""
BESIDE = """
    def validation_step(model, batch):
        return training_step(model, batch)["accuracy"]

    def on_epoch_end(model, metrics, folder):
        assert set(metrics) == {"epoch", "step", "learning_rate", "loss", "accuracy", "val_loss"}
        (folder / str(metrics["epoch"])).touch()
"""


@pytest.mark.slow
def test_own_step_has_the_curve_of_the_same_loss(runs_root: Path, tmp_path: Path) -> None:
    own = write_recipe(tmp_path, OWN, "own")
    supervised = write_recipe(tmp_path, SUPERVISED + EACH_BATCH, "supervised")
    one, other = train_both(spec_of(own, epochs=2), spec_of(supervised, epochs=2, devices="cpu:1"), runs_root)
    wanted = curves(other)
    assert wanted.keys() >= {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert_same_curves(curves(one), wanted, 1e-6)
    texts = 'np.array([f"item {each}" for each in range(items)])'
    assert texts in OWN
    without_texts = OWN.replace(texts, "target").replace('"none"', "9")
    beside = train(spec_of(write_recipe(tmp_path, without_texts + BESIDE, "beside"), "mirrored", epochs=2), runs_root)
    assert curves(beside)["loss"] == pytest.approx(wanted["loss"], rel=1e-4)
    assert curves(beside)["val_loss"] == pytest.approx(wanted["val_accuracy"], rel=1e-4)
    assert sorted(path.name for path in (beside.run.dir / OUTPUTS).iterdir()) == ["1", "2"]


@pytest.mark.slow
def test_weighted_step_has_one_curve_on_one_and_on_two_devices(runs_root: Path, tmp_path: Path) -> None:
    tokens = write_recipe(tmp_path, TOKENS, "tokens")
    placed = write_recipe(tmp_path, TOKENS + PLACE, "placed")
    whole = train(spec_of(tokens, epochs=2, checkpoints=EVERY_STEP), runs_root)
    wanted = curves(whole)
    for path, strategy in ((tokens, "mirrored"), (placed, "placement")):
        found = curves(train(spec_of(path, strategy, epochs=2, accumulation=2), runs_root))
        assert_same_curves(found, wanted, 1e-4)
    again = curves(resumed(broken_off(whole, 4, runs_root)))
    assert (again["square"], again["val_loss"]) == (wanted["square"], wanted["val_loss"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("return tf.stop_gradient(loss)", "depends on no parameter of the model, so there is nothing to train."),
        ("return {'accuracy': loss}", "returned a dict without 'loss' (accuracy)"),
        ("return loss + batch['missing']", "KeyError: 'missing'"),
    ],
)
def test_wrong_step_is_named(change: str, words: str, runs_root: Path, tmp_path: Path) -> None:
    source = OWN.partition("    def training_step")[0]
    loss = "loss = tf.reduce_mean(model(batch['inputs']))"
    source += f"\n    def training_step(model, batch):\n        {loss}\n        {change}\n"
    followed = train(spec_of(write_recipe(tmp_path, source, "wrong"), epochs=1), runs_root)
    assert words in followed.failure
    assert "missing" not in change or "line 42, in training_step" in (followed.run.facts.traceback or "")


def test_what_fit_cannot_train_is_refused(runs_root: Path, tmp_path: Path) -> None:
    collated = write_recipe(tmp_path, OWN + "    def collate(items):\n        return items\n", "collated")
    with pytest.raises(ValueError, match=r"has collate\(\), which Keras' fit does not call"):
        spec_of(collated)
    texts = train(spec_of(write_recipe(tmp_path, OWN, "texts"), "mirrored"), runs_root)
    assert "Keras' fit cannot hand out texts to several devices." in (texts.run.facts.error or "")
    listed = write_recipe(tmp_path, TOKENS.replace('return {"padded"', 'return [1] or {"padded"'), "listed")
    followed = train(spec_of(listed), runs_root)
    assert "train_data() of listed returned list. Keras' fit takes arrays in a tuple or a dict" in (
        followed.run.facts.error or ""
    )
