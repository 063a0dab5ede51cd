"""TensorFlow recipes that compute their steps themselves, with batches of any shape, and streams."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.resuming import EVERY_STEP, broken_off, resumed
from tests.support.running import curves, train, train_both, write_recipe
from tests.support.small_runs import assert_same_curves, recipe_fixture, small_spec
from tests.support.worker_pool import WorkerPools

MODEL = """
    import keras
    import numpy as np
    import tensorflow as tf
    from keras import layers

    class Net(keras.Model):
        def __init__(self, dropout=0.0):
            super().__init__()
            self.body = keras.Sequential([layers.Dense(16, activation="tanh"), layers.Dropout(dropout)])
            self.head = layers.Dense(3)

        def call(self, inputs, training=None):
            return self.head(self.encode(inputs))

        def encode(self, inputs):
            return self.body(inputs)

    def model(dropout=0.0):
        return Net(dropout)

    def optimizer(learning_rate=0.1):
        return keras.optimizers.SGD(learning_rate, momentum=0.9)

    def cross_entropy(target, output):
        return keras.losses.sparse_categorical_crossentropy(target, output, from_logits=True)

    def made(items):
        numbers = np.random.default_rng(7)
        return numbers.normal(size=(items, 6)).astype("float32"), numbers.integers(0, 3, items)
"""
SUPERVISED = f"""{MODEL}
    def train_data():
        return made(65)

    def val_data():
        return made(21)

    def metrics():
        return {{"accuracy": keras.metrics.sparse_categorical_accuracy}}
"""
OWN = f"""{MODEL}
    def train_data(items=65):
        inputs, target = made(items)
        return {{"inputs": inputs, "nested": (target, np.array([f"item {{each}}" for each in range(items)]))}}

    def val_data():
        return train_data(21)

    def training_step(model, batch):
        target, names = batch["nested"]
        output = model.head(model.encode(batch["inputs"]))  # past the call of the model
        if tf.reduce_any(names == "none"):  # texts stay texts, and TensorFlow's conditions can be used
            output *= 0.0
        accuracy = tf.reduce_mean(keras.metrics.sparse_categorical_accuracy(target, output))
        return {{"loss": tf.reduce_mean(cross_entropy(target, output)), "accuracy": accuracy}}
"""
"""65 items in batches of 16: the last batch has one item, so one of two devices has none."""
TOKENS = f"""{MODEL}
    class Sequences:
        def __init__(self, count):
            self.lengths = np.random.default_rng(3).integers(1, 9, count)

        def __len__(self):
            return len(self.lengths)

        def __getitem__(self, index):
            tokens = np.random.default_rng(index).normal(size=(self.lengths[index], 6))
            return {{"tokens": tokens.astype("float32"), "name": f"sequence {{index}}"}}

    def train_data(items=33):
        return Sequences(items)

    def val_data():
        return Sequences(10)

    def collate(items):
        longest = max(len(each["tokens"]) for each in items)
        padded = [np.pad(each["tokens"], ((0, longest - len(each["tokens"])), (0, 0))) for each in items]
        return {{
            "padded": (np.stack(padded), np.array([len(each["tokens"]) for each in items])),
            "names": np.array([each["name"] for each in items]),
        }}

    def training_step(model, batch):
        tokens, lengths = batch["padded"]
        if tf.shape(batch["names"])[0] != tf.shape(tokens)[0]:
            tokens *= 0.0
        mask = tf.sequence_mask(lengths, tf.shape(tokens)[1], tf.float32)
        target = tf.cast(tf.reduce_sum(tokens, -1) > 0, tf.int32)
        losses, count = cross_entropy(target, model(tokens)) * mask, tf.reduce_sum(mask)
        return {{"loss": tf.reduce_sum(losses) / count, "weight": count, "square": tf.reduce_sum(losses**2) / count}}
"""
"""33 sequences of different lengths in batches of 16, weighted by their tokens: the last batch has one sequence."""
PLACE = """
    def placed_model(devices):
        net = Net()
        for layer, size, device in zip([*net.body.layers[:1], net.head], (6, 16), devices):
            with tf.device(device):
                layer.build((None, size))
        return net
"""
STREAM = f"""{MODEL}
    import random

    def model(dropout=0.0):
        return keras.Sequential([layers.Dense(8, activation="tanh"), layers.Dropout(dropout), layers.Dense(1)])

    def train_data():
        order = list(range(203))
        random.shuffle(order)  # by the global random numbers, which the run must fix
        for number in order:
            yield {{"number": np.full(4, number / 203, "float32"), "target": np.float32(number / 100)}}

    def val_data():
        items = tf.data.Dataset.from_tensor_slices(tf.range(50, dtype=tf.float32) / 50).filter(lambda each: each > 0.5)
        return items.map(lambda each: {{"number": tf.fill([4], each), "target": each}})

    def training_step(model, batch):
        return tf.reduce_mean((model(batch["number"])[:, 0] - batch["target"]) ** 2)
"""
"""A generator of 203 items in batches of 16: 13 steps, the last with 11 items; and a `tf.data.Dataset` of unknown
size."""


DROPPED: dict[str, Any] = {"settings": {"dropout": 0.3}}


spec = partial(small_spec, framework="tensorflow")
own = recipe_fixture("own", OWN)
tokens = recipe_fixture("tokens", TOKENS)


@pytest.fixture(scope="module")
def baselines(own: str, tokens: str, pools: object, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """The curves of one device, by recipe."""
    root = tmp_path_factory.mktemp("baselines")
    runs = train_both(spec(own, **DROPPED), spec(tokens, devices="cpu:1"), root / "runs")
    return {path: curves(followed) for path, followed in zip((own, tokens), runs, strict=True)}


@pytest.mark.slow
def test_own_step_has_the_curve_of_the_same_loss(own: str, baselines: dict, runs_root: Path, tmp_path: Path) -> None:
    """Also with dropout, which a step's `model(x)` has in training and not in validations."""
    supervised = write_recipe(tmp_path, SUPERVISED, "supervised")
    measured, off = train_both(
        spec(supervised, **DROPPED), spec(supervised, training_metrics=False, devices="cpu:1", **DROPPED), runs_root
    )
    wanted, found = curves(off), baselines[own]
    assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-6)
    assert found["val_loss"] == pytest.approx(wanted["val_loss"], rel=1e-6)
    assert found["val_accuracy"] == pytest.approx(wanted["val_accuracy"], rel=1e-6)
    assert len(found["accuracy"]) == len(found["loss"]) == 10, "of every step"
    # metrics() on training batches are measured as often as there is time for, or not at all.
    assert "accuracy" not in wanted
    accuracy = measured.run_series.metrics["accuracy"]
    assert accuracy.steps.tolist()[0] == 1
    assert accuracy.values.tolist() == pytest.approx([found["accuracy"][int(step) - 1] for step in accuracy.steps])


@pytest.mark.parametrize(
    ("strategy", "accumulation"),
    [
        ("mirrored", 2),
        pytest.param("towers", 2, marks=pytest.mark.soak),
        pytest.param("central_storage", 1, marks=pytest.mark.soak),
        pytest.param("placement", 2, marks=pytest.mark.soak),
        pytest.param("multi_worker_mirrored", 2, marks=pytest.mark.slow),
    ],
)
def test_weighted_step_has_one_curve_on_one_and_on_two_devices(
    strategy: str, accumulation: int, tokens: str, baselines: dict, runs_root: Path, tmp_path: Path
) -> None:
    path = write_recipe(tmp_path, TOKENS + PLACE, "placed") if strategy == "placement" else tokens
    found = curves(train(spec(path, strategy, accumulation=accumulation), runs_root))
    assert found.keys() >= {"loss", "square", "val_loss", "val_square"}
    assert_same_curves(found, baselines[tokens], 1e-4)


@pytest.mark.slow
def test_own_step_trains_with_an_asynchronous_strategy(tokens: str, runs_root: Path) -> None:
    found = curves(train(spec(tokens, "parameter_server", epochs=4), runs_root))
    assert len(found["square"]) == len(found["loss"]) == 12
    assert found["val_loss"][-1] < found["val_loss"][0]


@pytest.mark.slow
def test_stream_has_one_curve_and_resumes_where_it_was_left(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, STREAM, "stream")
    settings: dict[str, Any] = {"steps_per_epoch": 13, "settings": {"dropout": 0.3}}
    one, two = train_both(
        spec(recipe, steps_per_epoch=13),
        spec(recipe, checkpoints=EVERY_STEP, devices="cpu:1", **settings),
        runs_root,
    )
    mirrored = curves(train(spec(recipe, "mirrored", steps_per_epoch=13, accumulation=2), runs_root))
    for name, values in curves(one).items():
        assert mirrored[name] == pytest.approx(values, rel=1e-4), name
    whole, again = curves(two), curves(resumed(broken_off(two, 17, runs_root)))  # in the middle of the second epoch
    assert len(whole["loss"]) == 26
    assert (again["loss"], again["val_loss"]) == (whole["loss"], whole["val_loss"])


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (
            "return tf.stop_gradient(loss)",
            "depends on no parameter of the model, so there is nothing to train. Compute it",
        ),
        (
            "return {'loss': loss, f'items {len(batch[\"inputs\"])}': 0}",
            "returned loss, items 1, but loss, items 16 before.",
        ),
        ("return loss + batch['missing']", "line 42, failed: KeyError: 'missing'. Correct it there."),
    ],
)
def test_wrong_step_is_named(step: str, words: str, runs_root: Path, tmp_path: Path) -> None:
    built = OWN.replace("super().__init__()", "super().__init__(); self.built = True")
    built = built.replace(
        "return Net(dropout)", "net = Net(dropout); net.body.build((None, 6)); net.head.build((None, 16)); return net"
    )
    loss = "loss = tf.reduce_mean(model(batch['inputs']))"
    source = built.partition("    def training_step")[0]
    source += f"\n    def training_step(model, batch):\n        {loss}\n        {step}\n"
    assert words in train(spec(write_recipe(tmp_path, source, "wrong")), runs_root).failure


@pytest.mark.slow
def test_other_names_on_another_worker_fail_on_all(runs_root: Path, tmp_path: Path) -> None:
    steps = """
    def training_step(model, batch):
        import json, os

        rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
        return {"loss": tf.reduce_mean(model(batch["inputs"])), f"a{rank}": 0}
    """
    source = OWN.partition("    def training_step")[0] + steps
    followed = train(spec(write_recipe(tmp_path, source, "ranks"), "multi_worker_mirrored"), runs_root)
    assert "returned other names on rank 1 (loss, a1) than on rank 0 (loss, a0)" in followed.failure


IN_TENSORFLOW = """
import json, random
import core.worker.tensorflow
import numpy as np, tensorflow as tf
from core.schema.settings import Training
from core.worker.tensorflow.task.stream import batches_of

ITEMS = 1003

class Numbers:
    def __iter__(self):
        order = list(range(ITEMS))
        random.shuffle(order)
        return iter({"n": np.int64(number), "more": np.zeros(number % 3)} for number in order)

def generator():
    yield from Numbers()

def named(number):
    return {"n": number}

def some(number):
    return number >= 0

def numbers():
    return tf.data.Dataset.range(ITEMS)

def batches(data, steps=None, collate=None, again=None, function="train_data", any_shape=True):
    training = Training(batch_size=64, seed=5, steps_per_epoch=steps)
    return batches_of(data, function, training, any_shape=any_shape, collate=collate, again=again)

def read(found, epoch=0, skip=0):
    return [found.packed(found.tensors(feed))["n"].numpy().tolist() for feed in found.shuffled(epoch, skip)]
"""
READ = """
kinds = {
    "iterable": lambda: batches(Numbers(), 16, stacked),
    "generator": lambda: batches(generator(), 16, stacked, again=generator),
    "list": lambda: batches(list(map(named, range(ITEMS)))),
    "unknown size": lambda: batches(numbers().shuffle(ITEMS, seed=1).filter(some).map(named), 16),
    "known size": lambda: batches(numbers().map(named)),
    "arrays": lambda: batches({"n": np.arange(ITEMS), "texts": np.array(["text"] * ITEMS)}),
    "endless": lambda: batches(numbers().shuffle(ITEMS, seed=1).repeat().map(named), 16),
}
stacked = lambda items: {"n": np.array([each["n"] for each in items])}
found = {}
for kind, make in kinds.items():
    whole = make()
    epochs = [read(whole, epoch) for epoch in range(3)]
    found[kind] = {"epochs": epochs, "resumed": read(make(), 2, skip=7)}
print(json.dumps(found))
"""
REFUSED = """
items = [{"n": np.zeros(number + 1)} for number in range(3)]
sentences = []
for arguments in (
    dict(data=Numbers()), dict(data=numbers().filter(some)), dict(data=numbers().repeat()),
    dict(data=numbers().repeat(), function="val_data"), dict(data=numbers(), collate=list),
    dict(data=numbers().filter(some), steps=17), dict(data=iter(()), steps=1, again=lambda: iter(())),
    dict(data=items), dict(data=items, collate=lambda items: {"n": np.zeros(5)}),
    dict(data=[{"n": 1}] * 65, collate=lambda items: {str(len(items)): np.zeros(len(items))}),
    dict(data=[1, 2], any_shape=False), dict(data={"n": np.zeros(3), "m": np.zeros(2)}), dict(data=None),
    dict(data=np.zeros(8), steps=2), dict(data=[]), dict(data=[object()] * 2),
):
    try:
        found = batches(**arguments)
        for _ in (found.in_order() if arguments.get("function") else found.shuffled(0)):
            pass
        sentences.append("")
    except (TypeError, ValueError) as error:
        sentences.append(str(error))
print(json.dumps(sentences))
"""


def test_each_item_of_a_stream_is_used_once_per_epoch_also_after_a_resumption(pools: WorkerPools) -> None:
    for kind, found in json.loads(pools.run("tensorflow", IN_TENSORFLOW + READ)).items():
        epochs = found["epochs"]
        assert epochs[0] != epochs[1], kind
        assert found["resumed"] == epochs[2][7:], kind
        items = [item for epoch in epochs for step in epoch for item in step]
        if kind == "endless":  # epochs follow each other
            assert all(len(step) == 64 for epoch in epochs for step in epoch)
            assert sorted(items[:1003]) == sorted(items[1003:2006]) == list(range(1003))
        else:
            assert [len(step) for step in epochs[0]] == [64] * 15 + [43], kind
            assert all(sorted(item for step in epoch for item in step) == list(range(1003)) for epoch in epochs), kind


def test_data_that_cannot_be_read_are_explained(pools: WorkerPools) -> None:
    expected = [
        "a stream of unknown length. Give the number of steps per epoch (--steps-per-epoch N)",
        "of unknown size. Give the number of steps per epoch (--steps-per-epoch N), or set its size",
        "an endless tf.data.Dataset. Remove repeat(), or give the number of steps per epoch",
        "but a validation reads its data to the end. Remove repeat().",
        "collate() is not called. Remove collate(), or return a list or a generator of items.",
        "ended after 16 steps of 64 items, but an epoch has 17. Set the steps per epoch to 16",
        "train_data() returned an empty stream. There is nothing to train on.",
        "The items of train_data() cannot be stacked to a batch: all input arrays must have the same shape",
        "collate() gave a batch of 3 items with tensors of [5]. Each tensor's first dimension must be the items",
        "collate() gave a batch of another structure than the first.",
        "train_data() gave a batch of the type ndarray. Without training_step(), a batch must be a tuple",
        "returned arrays of [2, 3] items. ",
        "train_data() returned NoneType. Return arrays or tensors with the same number of items in a tuple or a dict",
        "An epoch is to have 2 steps, but 8 items are only 1 steps of 64.",
        "train_data() returned an empty list. There is nothing to train on.",
        "train_data() gave a batch with ndarray, which TensorFlow cannot convert to a tensor",
    ]
    sentences = json.loads(pools.run("tensorflow", IN_TENSORFLOW + REFUSED))
    for sentence, words in zip(sentences, expected, strict=True):
        assert words in sentence
