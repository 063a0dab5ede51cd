"""TensorFlow loops: same losses on any devices, exact resumption, and errors for unusable recipes."""

import json
import os
import re
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.runs.facts import RunState, part_sentences
from core.runs.run import Run
from core.schema.events import Tail
from core.schema.paths import EVENTS
from core.schema.spec import read_spec
from tests.support.listening import beyond_loopback, listening
from tests.support.resuming import EVERY_STEP, broken_off, resumed, whole_and_stepwise
from tests.support.running import CAME_UP, FOREVER, Followed, Trained, start, train, train_both, write_recipe
from tests.support.small_runs import assert_same_curve, is_of_training, recipe_fixture, small_spec
from tests.support.worker_pool import WorkerPools

ROOT = Path(__file__).resolve().parents[2]
PARALLEL = ("mirrored", "central_storage", "multi_worker_mirrored", "towers", "placement")

AWKWARD = """
    import keras
    import numpy as np
    import tensorflow as tf
    from keras import layers, losses

    def model(dropout=0.0, outputs=3):
        return keras.Sequential([
            layers.Embedding(20, 8), layers.Flatten(),
            layers.Dense(16, activation="tanh", kernel_regularizer=keras.regularizers.L2(0.01)),
            layers.Dropout(dropout), layers.Dense(outputs),
        ])

    def train_data(items=65, read=False):
        words = np.random.default_rng(0).integers(0, 20, (items, 6)).astype("int32")
        arrays = words, words.sum(axis=1) % 3
        return tf.data.Dataset.from_tensor_slices(arrays) if read else arrays

    def val_data(read=False):
        return train_data(33, read)

    def loss():
        mean = losses.SparseCategoricalCrossentropy(from_logits=True)
        return lambda target, output: mean(target, output)

    def optimizer(learning_rate=0.05):
        return keras.optimizers.SGD(learning_rate, momentum=0.9)

    def metrics():
        return {"accuracy": keras.metrics.sparse_categorical_accuracy}
"""
"""65 items in batches of 16: one of two devices has no item of the last batch. Sparse gradients, regularisation, and a
loss within a function, which Keras would divide by the number of replicas."""


awkward = recipe_fixture("awkward", AWKWARD)
spec = partial(small_spec, framework="tensorflow")


BY_HAND = """
    import json, runpy
    import keras, tensorflow as tf
    recipe = runpy.run_path({recipe!r})
    inputs, targets = map(tf.constant, recipe["train_data"]())
    keras.utils.set_random_seed(5)
    model, optimizer = recipe["model"](), recipe["optimizer"]()
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    losses = []
    for epoch in range(3):
        order = tf.random.experimental.stateless_shuffle(tf.range(65), seed=[5 * 1_000_003 + epoch, 0])
        for index in (order[start : start + 16] for start in range(0, 65, 16)):
            with tf.GradientTape() as tape:
                output = model(tf.gather(inputs, index), training=True)
                loss = cross_entropy(tf.gather(targets, index), output) + sum(model.losses)
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights))
            losses.append(float(loss))
    print(json.dumps(losses))
"""


@pytest.mark.slow
def test_single_device_losses_equal_hand_written_loop(runs_root: Path, awkward: str, pools: WorkerPools) -> None:
    followed = start(spec(awkward, epochs=3, seed=5), runs_root)
    by_hand = json.loads(pools.run("tensorflow", BY_HAND.format(recipe=awkward)))
    assert followed.until_over().losses() == pytest.approx(by_hand, rel=1e-6)


STRICT = {"epochs": 13, "gradient_clip": 0.1, "weight_decay": 0.1, "warmup_steps": 5}


@pytest.fixture(scope="module")
def strict_runs(tmp_path_factory: pytest.TempPathFactory) -> Trained[str]:
    """Finished runs by strategy. Only `single` runs without accumulation, which must not change the losses."""
    root = tmp_path_factory.mktemp("strict")
    recipe = write_recipe(root, AWKWARD, "awkward")

    def make(strategy: str, runs_root: Path) -> Followed:
        settings = STRICT | {"accumulation": 1 if strategy == "single" else 2}
        return train(spec(recipe, strategy, **settings), runs_root)

    return Trained(make, root / "runs")


@pytest.mark.slow
@pytest.mark.parametrize("strategy", PARALLEL)
def test_parts_of_a_batch_are_weighted_by_size_and_clipped_together(strict_runs: Trained[str], strategy: str) -> None:
    followed = strict_runs[strategy]
    assert followed.state is RunState.FINISHED
    assert followed.run_series.metrics["loss"].count == 65
    assert_same_curve(followed, strict_runs["single"])


@pytest.mark.slow
def test_embedding_has_one_curve_with_an_optimizer_that_squares_its_gradient(runs_root: Path, tmp_path: Path) -> None:
    """An embedding's gradient has a row per word, and Keras' Adam squares each by itself, also of a repeated word."""
    recipe = write_recipe(tmp_path, AWKWARD.replace("SGD(learning_rate, momentum=0.9)", "Adam(learning_rate)"), "adam")
    one, two = (
        train(spec(recipe, strategy, epochs=2, accumulation=parts), runs_root)
        for strategy, parts in (("single", 1), ("towers", 2))
    )
    assert one.run_series.metrics["loss"].count == 10
    assert_same_curve(two, one)


@pytest.mark.e2e  # workers in a pool do not generate the code of functions of ours
def test_generated_code_is_not_left_in_the_temporary_folder(runs_root, tmp_path, awkward, monkeypatch) -> None:
    """TensorFlow imports the code that it generates from files in that folder, and Python would cache it there."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    assert train(spec(awkward), runs_root).state is RunState.FINISHED
    assert not list(folder.rglob("*autograph*"))


@pytest.mark.slow
def test_learning_rate_schedule_of_recipe_is_recorded_at_epoch_ends(runs_root: Path, tmp_path: Path) -> None:
    falling = AWKWARD.replace("def optimizer(learning_rate=0.05)", "def optimizer()").replace(
        "SGD(learning_rate, momentum=0.9)", "SGD(keras.optimizers.schedules.ExponentialDecay(0.5, 5, 0.5))"
    )
    plain, falls = train_both(
        spec(write_recipe(tmp_path, AWKWARD, "plain"), epochs=3, learning_rate=0.25),
        spec(write_recipe(tmp_path, falling, "falling"), epochs=3, devices="cpu:1"),
        runs_root,
    )

    assert plain.run_series.metrics["learning_rate"].values.tolist() == [0.25]
    assert falls.run_series.metrics["learning_rate"].steps.tolist() == [5, 10, 15]
    assert falls.run_series.metrics["learning_rate"].values.tolist() == pytest.approx([0.25, 0.125, 0.0625])


@pytest.mark.slow
def test_tf_dataset_is_split_like_arrays(runs_root: Path, awkward: str) -> None:
    one, two = (
        train(spec(awkward, strategy, epochs=3, settings={"read": True}), runs_root)
        for strategy in ("single", "mirrored")
    )
    assert one.run_series.metrics["loss"].count == 15
    assert_same_curve(two, one)


def events(run: Run, kind: str) -> list[dict[str, Any]]:
    return [event for event in Tail(run.dir / EVENTS / "worker-0.jsonl").read() if event["kind"] == kind]


@pytest.mark.slow
@pytest.mark.parametrize("own", [True, False])
def test_parts_of_a_placed_model_are_on_the_selected_devices(runs_root, strict_runs, *, own) -> None:
    """The recipe places the parts, or a sequential model is split into two of similar size."""
    recipe = str(ROOT / "resources" / "recipes" / "keras" / "two_branch_lstm.py")
    placed = spec(recipe, "placement", epochs=1, settings={"items": 65})
    followed = train(placed, runs_root) if own else strict_runs["placement"]
    first, second = events(followed.run, "parts")
    assert [part["device"] for part in (first, second)] == ["cpu:0", "cpu:1"]
    assert [part["where"][-5:] for part in (first, second)] == ["CPU:0", "CPU:1"]
    assert first["parameters"]
    assert second["parameters"]
    assert not set(first["parameters"]) & set(second["parameters"])


@pytest.mark.slow
def test_further_towers_read_the_variables_of_the_first(strict_runs: Trained[str]) -> None:
    parts = strict_runs["towers"].run.facts.parts.values()
    (_, first), (_, second) = part_sentences(parts, {"cpu:0": "CPU 0"})
    assert re.fullmatch(r"5 of 5 parameters: .+ \(\d+ kB\)", first)
    assert second == "no parameter: it reads those on CPU 0"


DROPS = AWKWARD.replace("layers.Dropout(dropout)", "layers.BatchNormalization(), layers.Dropout(0.5)").replace(
    "keras.optimizers.SGD(learning_rate, momentum=0.9)", "keras.optimizers.Adam(learning_rate)"
)
SCHEDULED = {"epochs": 3, "schedule": "cosine", "warmup_steps": 4, "weight_decay": 0.1, "gradient_clip": 0.5}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Followed, Followed]:
    return whole_and_stepwise(partial(spec, **SCHEDULED), DROPS, tmp_path_factory.mktemp("finished"))


@pytest.mark.slow
def test_resumed_run_is_bitwise_equal_to_uninterrupted_run(runs_root, finished) -> None:
    """Resume from mid-epoch and from the last step before the validation."""
    whole, stepwise = finished
    assert stepwise.losses() == whole.losses()
    for step in (3, 5):
        again = resumed(broken_off(stepwise, step, runs_root))
        assert again.state is RunState.FINISHED, again.run.facts.error
        for metric, series in whole.run_series.metrics.items():
            if is_of_training(metric):
                continue
            assert again.run_series.metrics[metric].values.tolist() == series.values.tolist(), (step, metric)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["mirrored", "multi_worker_mirrored"])
def test_resumed_run_on_many_devices_is_equal_within_rounding(runs_root: Path, awkward: str, strategy: str) -> None:
    settings = SCHEDULED | {"settings": {"read": True}}
    stepwise = train(spec(awkward, strategy, checkpoints=EVERY_STEP, **settings), runs_root)
    assert_same_curve(resumed(broken_off(stepwise, 7, runs_root)), stepwise, 1e-6)


def check_unreachable(processes: list[int]) -> None:
    """Check that these processes listen on all addresses, of a network that nobody outside of it can connect to."""
    inside = listening(processes)
    assert len(beyond_loopback(inside)) == len(processes)
    assert listening(processes, here=True) == set()
    here = os.readlink("/proc/self/ns/net")  # noqa: PTH115 (a link in /proc is no path)
    assert all(os.readlink(f"/proc/{pid}/ns/net") != here for pid in processes)  # noqa: PTH115


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["single", "multi_worker_mirrored", "parameter_server"])
def test_stop_request_during_an_epoch_stops_all_workers(runs_root: Path, awkward: str, strategy: str) -> None:
    followed = start(spec(awkward, strategy, epochs=FOREVER, checkpoints={"unit": "never"}), runs_root)
    followed.until_trained(20)
    if strategy != "single":
        check_unreachable([each.process.pid for each in followed.run.facts.workers.values() if each.role != "fetch"])
    followed.stop()
    assert followed.states == [*CAME_UP, RunState.STOPPING, RunState.RELEASING, RunState.STOPPED]
    assert followed.run_series.metrics["loss"].count >= 20


@pytest.mark.slow
def test_asynchronous_strategy_shows_a_notice_and_resumes_after_pause(runs_root: Path, awkward: str) -> None:
    # At five times this rate, two of six runs lost again what they had learned: gradients are stale, and have momentum.
    slow = spec(awkward, "parameter_server", epochs=60, learning_rate=0.01)
    followed = start(slow, runs_root)
    assert followed.pause().state is RunState.PAUSED
    assert 0 < followed.run.facts.step < 300
    again = resumed(followed.run.dir)
    assert again.state is RunState.FINISHED, again.run.facts.error
    assert again.run_series.metrics["loss"].steps.tolist() == list(range(1, 301))
    late = again.run_series.metrics["val_accuracy"].values[-30:]
    assert np.median(late) >= 0.7, "of many, since single epochs vary; by chance, it is a third"
    assert any("asynchronous" in notice for notice in again.run.facts.notices)


@pytest.mark.slow
def test_xla_and_bfloat16_losses_are_within_their_tolerances(runs_root: Path, awkward: str) -> None:
    plain, half = train_both(
        spec(awkward, epochs=2), spec(awkward, epochs=2, precision="bfloat16", devices="cpu:1"), runs_root
    )
    assert_same_curve(train(spec(awkward, "mirrored", epochs=2, compile=True), runs_root), plain, 1e-4)
    assert half.losses() == pytest.approx(plain.losses(), rel=0.05)
    assert half.losses() != pytest.approx(plain.losses(), rel=1e-5)


def test_checkpoint_of_another_model_is_refused_by_name(runs_root: Path, finished: tuple[Followed, Followed]) -> None:
    run_dir = broken_off(finished[1], 3, runs_root)
    recipe = Path(read_spec(run_dir).recipe.path)
    recipe.write_text(textwrap.dedent(DROPS).replace("Dense(16", "Dense(24"))
    again = resumed(run_dir)
    recipe.write_text(textwrap.dedent(DROPS))  # other tests use it
    assert "Checkpoint step-00000003 is of another model" in again.failure
    assert "kernel has the shape" in again.failure


OWN = """
    class Own(keras.Model):
        def __init__(self, row):
            super().__init__()
            self.row = row
"""


def test_invalid_labels_and_conflicting_schedules_are_refused(runs_root: Path, tmp_path: Path) -> None:
    labels = write_recipe(tmp_path, AWKWARD.replace("% 3", "% 4"), "labels")
    schedule = AWKWARD.replace("SGD(learning_rate", "SGD(keras.optimizers.schedules.CosineDecay(0.1, 9)")
    refused = train_both(
        spec(labels, epochs=1),
        spec(write_recipe(tmp_path, schedule, "schedule"), epochs=1, warmup_steps=2, devices="cpu:1"),
        runs_root,
    )
    assert [followed.state for followed in refused] == [RunState.FAILED] * 2
    label, own_schedule = (str(followed.run.facts.error) for followed in refused)
    assert "A label is 3, but the model has 3 outputs" in label
    assert "has a learning rate schedule of its own" in own_schedule


def test_model_that_cannot_be_placed_fails_with_the_reason(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, AWKWARD.replace("keras.Sequential([", "Own([") + OWN, "own")
    followed = train(spec(recipe, "placement", epochs=1), runs_root)
    words = "cannot be placed on 2 devices because its class is Own, not keras.Sequential."
    assert words in followed.failure


RETURNED = """
    import json
    import numpy as np, tensorflow as tf
    from core.worker.tensorflow.task.data import Batches
    numbers = tf.data.Dataset.range(8)
    pairs = tf.data.Dataset.zip((numbers, numbers))
    sentences = []
    for data in (
        None, (np.zeros(8),), (np.zeros((8, 4)), np.zeros(7)), (np.zeros((0, 4)), np.zeros(0)),
        numbers, pairs.repeat(), pairs.filter(lambda one, other: one > 3), pairs.take(0), (np.zeros(8), [1] * 8),
    ):
        try:
            Batches(data, "train_data", batch_size=4)
            sentences.append("")
        except (TypeError, ValueError) as error:
            sentences.append(str(error))
    print(json.dumps(sentences))
"""


def test_invalid_train_data_error_names_valid_types(pools: WorkerPools) -> None:
    expected = [
        "train_data() returned NoneType. Return a tuple of arrays",
        "train_data() returned (ndarray). Return a tuple of arrays",
        "train_data() returned arrays of [8, 7] items. Return as many targets as inputs, at least one.",
        "train_data() returned arrays of [0, 0] items.",
        "Without training_step(), each item must be a tuple of two or more tensors",
        "returned an endless tf.data.Dataset. Remove repeat()",
        "of unknown size. Set it: dataset.apply(tf.data.experimental.assert_cardinality(items)).",
        "returned an empty tf.data.Dataset.",
        "train_data() returned (ndarray, list). Return a tuple of arrays",
    ]
    for sentence, words in zip(json.loads(pools.run("tensorflow", RETURNED)), expected, strict=True):
        assert words in sentence
