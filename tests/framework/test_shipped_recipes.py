"""Every included recipe has one curve over all strategies that train it, and resumes bit for bit.

A new recipe is tested by itself: it gets a row in `SMALL` if it needs other settings to be trained in a few short
steps. `make soak` tests all of them. `make test` leaves out those that are `ALIKE`, and those for TensorFlow and Keras,
each of whose runs takes seconds: `test_matrix.py` has `digits_cnn` with all frameworks and strategies.
"""

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.catalog import recipe_use, recipes, strategies
from core.catalog.recipes import standalone
from core.config import validation
from core.devices.cpu import cpu_devices
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.spec import RunSpec
from tests.framework.test_workloads import write_mnist
from tests.support.resuming import EVERY_STEP, broken_off, kill_after_checkpoint, resumed
from tests.support.running import Followed, Trained, curves, make_spec, start, train
from tests.support.small_runs import assert_same_curves

TWO = cpu_devices()[:2]


@dataclass(frozen=True)
class Small:
    """How a recipe is trained here: 2 epochs of 3 steps, the last of which has a smaller, odd number of items."""

    batch_size: int
    settings: dict[str, Any] = field(default_factory=dict)
    noisy: dict[str, Any] = field(default_factory=dict)
    """Settings with which a step draws random numbers, each rank others: for the test of resuming."""


DIGITS = Small(480, noisy={"dropout": 0.3})
"""1437 digits: the last batch has 477."""
MADE = Small(16, {"items": 37, "val_items": 11}, {"dropout": 0.3})
"""Data that are made or downloaded: the last batch has 5 items."""
TEXT = Small(16, {"width": 16, "heads": 2, "layers": 2, "context": 16}, {"dropout": 0.3})
"""45 windows of the included text: the last batch has 13."""
SMALL = {
    "digits_cnn": DIGITS,
    "digits_gan": Small(480),
    "digits_mlp": DIGITS,
    "digits_vae": Small(480, {"noise": 0.0}, {"noise": 1.0}),
    "char_transformer": TEXT,
    "char_lora": Small(10, {**TEXT.settings, "base_steps": 3}),  # has half of the windows
    "hugging_face_gpt": TEXT,
    "mobilenet_cats_dogs": Small(16, {"size": 32, "width": 0.35}),  # 37 pictures
}
"""Recipes that are not `MADE`, by name."""
TEXT_CHARACTERS = 800
NEEDS = {"hugging_face_gpt": "transformers"}
ELSEWHERE = {"mobilenet_cats_dogs", "parameter_server"}
"""What has no one curve: batch normalisation sees a device's part of a batch, and a parameter server does not wait.

They are trained in `test_workloads.py` and `test_matrix.py`.
"""
PICTURES = """\
def cats_vs_dogs(split):
    pictures = tf.random.stateless_uniform((37, 40, 40, 3), (1, 2), 0, 255)
    return tf.data.Dataset.from_tensor_slices((pictures, tf.range(37, dtype=tf.int64) % 2))


"""
"""Generated pictures in the place of photographs that would be downloaded."""
NOT_IN_ORDER = "not nn.Sequential. Tick fewer devices, or give the recipe a function placed_model(devices)"
UNABLE = {
    ("digits_gan", "placement"): NOT_IN_ORDER,
    ("digits_vae", "placement"): NOT_IN_ORDER,
    ("shapes_detector", "placement"): NOT_IN_ORDER,
    ("hugging_face_gpt", "placement"): NOT_IN_ORDER,
    ("forecast_stream", "placement"): NOT_IN_ORDER,
    ("forecast_stream", "pipeline"): "returned a stream, which a pipeline cannot read",
}
"""Strategies that cannot train a recipe, and what the run says then. Others are refused before the start."""
ALIKE = {
    "digits_cnn", "digits_mlp", "mnist_cnn", "mnist_mlp", "fashion_cnn", "char_transformer", "two_branch_lstm",
}
"""Recipes with inputs, a target and a loss of the two, as the tests of all strategies have them."""
TOLERANCE = {"pytorch": 1e-5, "tensorflow": 1e-4, "keras": 1e-4}

Key = tuple[str, str, str]
"""Framework, recipe and strategy; "noisy" in place of a strategy is one device with the noisy settings."""


def allowed(framework: str) -> Iterator[Any]:
    """Yield every recipe with every strategy for two devices that is not refused before the start."""
    for recipe in recipes.built_in(framework):
        for strategy in strategies.strategies_of(framework):
            if {recipe.name, strategy.name} & ELSEWHERE or validation.obstacle(strategy, TWO):
                continue
            try:
                recipe_use.check_strategy(recipe, framework, strategy.name, varies=False)
            except ValueError:
                continue
            # The others are trained by the soak tests: each costs seconds.
            is_short = (framework, strategy.name) == ("pytorch", "ddp") and recipe.name not in ALIKE
            marks = [] if is_short else [pytest.mark.soak]
            yield pytest.param(framework, recipe.name, strategy.name, marks=marks)


ALLOWED = [*allowed("pytorch"), *allowed("tensorflow"), *allowed("keras")]
PYTORCH = [
    pytest.param(recipe.name, marks=[pytest.mark.soak] if recipe.name in ALIKE else [])
    for recipe in recipes.built_in("pytorch")
]
COPIED = [
    pytest.param(framework, recipe.name, marks=[] if recipe.name in {"char_lora", "digits_vae"} else [pytest.mark.soak])
    for framework in ("pytorch", "keras")
    for recipe in recipes.built_in(framework)
    if recipe.name not in ELSEWHERE
]
"""Two recipes with included data; `test_setup_panel.py` reads the others."""
INTERRUPTED = [
    (framework, recipe.name)
    for framework in ("pytorch", "tensorflow", "keras")
    for recipe in recipes.built_in(framework)
]
LONG_EPOCHS = 12
"""Epochs of 3 steps: enough that a run is killed before it is over."""


def small_spec(key: Key, data: Path) -> RunSpec:
    """Return the spec of a run; `data` has a text."""
    framework, name, strategy = key
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    small = SMALL.get(name, MADE)
    known = {each.name for each in recipes.find(name, framework).settings}
    wanted = {"text": str(data / "text.txt"), **small.settings, **(small.noisy if strategy == "noisy" else {})}
    alone = strategy in {"single", "noisy"}
    return make_spec(
        _with_pictures(framework, data) if name == "mobilenet_cats_dogs" else name, framework=framework,
        strategy="single" if alone else strategy,
        devices=TWO[0].id if alone else ",".join(each.id for each in TWO), checkpoints=EVERY_STEP if alone else None,
        settings={each: value for each, value in wanted.items() if each in known},
        accumulation=1 if alone else 2, batch_size=small.batch_size, epochs=2, seed=3,
        training_metrics=False,  # whose number of measurements depends on the time that they take
    )


def _with_pictures(framework: str, folder: Path) -> str:
    """Write a copy of the recipe of photographs that makes its pictures itself; return its path."""
    source = standalone(recipes.find("mobilenet_cats_dogs", framework))
    downloads = source[source.index("def cats_vs_dogs(") : source.index("def optimizer(")]
    path = folder / "pictures.py"
    path.write_text(source.replace(downloads, PICTURES), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, and with small files in the place of what recipes download."""
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    letters = random.choice(list("abcdefgh "), TEXT_CHARACTERS)
    (folder / "text.txt").write_text("".join(letters), encoding="ascii")
    write_mnist(folder)
    return folder


@pytest.fixture(autouse=True)
def _data_folder(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_DATA", str(data))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Trained[Key]:
    """Runs on one device."""
    return Trained(lambda key, runs_root: train(small_spec(key, data), runs_root), tmp_path_factory.mktemp("alone"))


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "recipe", "strategy"), ALLOWED)
def test_recipe_has_one_curve_on_one_and_on_two_devices(framework, recipe, strategy, alone, runs_root, data) -> None:
    followed = train(small_spec((framework, recipe, strategy), data), runs_root)
    if words := UNABLE.get((recipe, strategy)):
        assert followed.state is RunState.FAILED
        assert words in str(followed.run.facts.error)
        return
    found, wanted = curves(followed), curves(alone[framework, recipe, "single"])
    assert len(wanted["loss"]) == 6
    assert_same_curves(found, wanted, TOLERANCE[framework])


@pytest.mark.parametrize(("framework", "recipe"), COPIED)
def test_copy_of_a_recipe_trains_alone(framework, recipe, alone, runs_root, data, tmp_path) -> None:
    original = small_spec((framework, recipe, "single"), data)
    copy = tmp_path / "mine.py"
    copy.write_text(standalone(recipes.find(recipe, framework)), encoding="utf-8")
    followed = train(replace(original, recipe=replace(original.own_recipe, name="mine", path=str(copy))), runs_root)
    assert curves(followed) == curves(alone[framework, recipe, "single"])


@pytest.mark.soak
@pytest.mark.parametrize(("framework", "recipe"), INTERRUPTED)
def test_paused_and_killed_run_of_a_recipe_resumes_bit_for_bit(framework, recipe, runs_root, data) -> None:
    """Pause in an epoch, kill every process after a later checkpoint, pause again, and go on to the end."""
    noisy = {each.name for each in recipes.find(recipe, framework).settings} & SMALL.get(recipe, MADE).noisy.keys()
    spec = small_spec((framework, recipe, "noisy" if noisy else "single"), data)
    spec = replace(spec, training=replace(spec.training, epochs=LONG_EPOCHS))
    wanted = curves(train(spec, runs_root / "whole"))
    followed = start(spec, runs_root / "interrupted")
    assert followed.pause().state is RunState.PAUSED
    assert 0 < followed.run.facts.step < 3, "in the first epoch"

    again = Followed(Run.resume(followed.run.dir))
    kill_after_checkpoint(again, followed.run.facts.step + 4)
    assert again.state is RunState.LOST, "it was killed before its end"
    assert followed.run.facts.step < again.run.facts.step < 3 * LONG_EPOCHS

    last = Followed(Run.resume(followed.run.dir))
    assert last.pause().state is RunState.PAUSED
    found = curves(resumed(followed.run.dir))
    assert found.keys() == wanted.keys()
    assert [name for name, values in wanted.items() if found[name] != values and name != "learning_rate"] == []


@pytest.mark.parametrize("recipe", PYTORCH)
def test_killed_run_of_a_recipe_resumes_bit_for_bit(recipe: str, alone: Trained[Key], runs_root: Path) -> None:
    known = {each.name for each in recipes.find(recipe, "pytorch").settings}
    noisy = known & SMALL.get(recipe, MADE).noisy.keys()
    whole = alone["pytorch", recipe, "noisy" if noisy else "single"]
    again = resumed(broken_off(whole, 4, runs_root))  # in the middle of the second epoch
    found, wanted = curves(again), curves(whole)
    assert [name for name, values in wanted.items() if found[name] != values and name != "learning_rate"] == []
