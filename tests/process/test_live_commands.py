"""The commands `set` and `trace`: what a run takes while it trains, and what it refuses."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.paths import SET
from core.schema.spec import RunSpec, read_spec, setting_changes
from tests.support.commands import Call
from tests.support.running import FOREVER, LONG, Followed, make_spec, source_spec, start, write_recipe
from tests.support.ssh_server import TRAINYARD, SshServer, add_host
from tests.support.waiting import wait_until

REFUSED = {
    ("epochs=0",): "Give a whole number of at least 1",
    ("epochs=many",): "Give a whole number of at least 1",
    ("epochs=1",): "has begun. Give at least",
    ("learning_rate=-1",): "Give a number greater than 0",
    ("checkpoint_every=often",): "is not understood",
    ("batch_size=8",): "batch_size cannot change while a run trains",
    ("epochs",): "is not of the form NAME=VALUE",
    (): "Give what to change",
    ("epochs=9", "--finish"): "but not both",
}
EPOCH = 16
"""Steps."""


@pytest.fixture
def begin(runs_root: Path) -> Iterator[Callable[..., Followed]]:
    """Starts a run, which is ended in any case."""
    started: list[Followed] = []

    def make(spec: RunSpec) -> Followed:
        started.append(start(spec, runs_root))
        return started[-1]

    yield make
    for each in started:
        each.stop()


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    return write_recipe(tmp_path, LONG, "long")


def test_settings_change_for_all_ranks_and_the_run_finishes_after_an_epoch(
    begin: Callable[..., Followed], recipe: str, call: Call
) -> None:
    spec = make_spec(recipe, epochs=FOREVER, batch_size=4, devices="cpu:0,cpu:1", checkpoints={"unit": "never"})
    followed = begin(spec).until_trained(2 * EPOCH)
    before = (followed.run.dir / "spec.json").read_bytes()
    change = partial(call, "set", followed.run.id)
    for words, why in REFUSED.items():
        code, out, error = change(*words)
        assert (code, out) == (2, "")
        assert why in error
    assert setting_changes(followed.run.dir) == []

    code, out, _ = change("epochs=2000000", "learning_rate=1e-4", "checkpoint_every=500 steps", "--json")
    assert code == 0
    rows = json.loads(out)["changes"]
    assert [(each["name"], each["from"], each["to"]) for each in rows] == [
        ("epochs", FOREVER, 2 * FOREVER), ("learning_rate", 1e-3, 1e-4), ("checkpoints.unit", "never", "steps"),
        ("checkpoints.every", 1, 500),
    ]
    assert followed.poll().run.facts.plan.epochs == 2 * FOREVER
    wait_until(lambda: followed.poll().run.facts.checkpoint, "a checkpoint")
    assert followed.run.facts.checkpoint.step % 500 == 0
    code, out, _ = change("learning_rate=1e-3", "checkpoint_every=never")
    assert [line.partition(",")[0] for line in out.splitlines()] == [
        "Learning rate: 0.0001 → 0.001", "Save checkpoints: steps → only on request",
    ]
    change("learning_rate=1e-4")
    assert change("learning_rate=1e-4")[:2] == (0, "It has these settings already.\n")

    code, out, _ = change("--finish")
    assert (code, out.startswith("Epochs: 2000000 → ")) == (0, True)
    assert followed.until_over().state is RunState.FINISHED
    epochs = followed.run.spec().training.epochs
    assert followed.run.facts.step == EPOCH * epochs
    assert followed.run_series.metrics["loss"].steps.tolist() == list(range(1, EPOCH * epochs + 1))
    assert (followed.run.dir / "spec.json").read_bytes() == before
    assert read_spec(followed.run.dir, changed=False).training.epochs == FOREVER
    code, _, error = change("epochs=3")
    assert code == 2
    assert "is over already" in error


def test_what_only_the_workers_can_refuse_is_a_notice_and_changes_nothing(
    begin: Callable[..., Followed], tmp_path: Path, call: Call
) -> None:
    needs = write_recipe(tmp_path, LONG.replace("items=64", "items=64, epochs=1"), "needs")
    followed = begin(make_spec(needs, epochs=FOREVER, batch_size=4)).until_trained(EPOCH)
    code, _, error = call("set", followed.run.id, "epochs=2000000", "learning_rate=1e-4")
    assert code == 2
    assert "train_data() of the recipe depends on all 1000000 epochs" in error
    (followed.run.dir / "control" / SET).write_text('{"epochs": "all", "learning_rate": ')
    wait_until(lambda: not list((followed.run.dir / "control").iterdir()), "the damaged request to be taken")
    assert setting_changes(followed.run.dir) == []
    assert call("set", followed.run.id, "--finish")[0] == 0
    assert followed.until_over().state is RunState.FINISHED


def test_a_schedule_over_all_epochs_refuses_another_number_of_them(
    begin: Callable[..., Followed], recipe: str, call: Call
) -> None:
    spec = make_spec(recipe, epochs=FOREVER, batch_size=4, schedule="cosine")
    followed = begin(spec).until_trained(EPOCH)
    code, _, error = call("set", followed.run.id, "epochs=2000000")
    assert code == 2
    assert "The run's schedule depends on all 1000000 epochs" in error


@pytest.mark.parametrize("words", [("set", "epochs=3"), ("trace", "--steps", "3")])
def test_a_script_refuses_both(
    begin: Callable[..., Followed], tmp_path: Path, call: Call, words: tuple[str, ...]
) -> None:
    followed = begin(source_spec(tmp_path, "import time\ntime.sleep(3600)")).until(RunState.RUNNING)
    name, *others = words
    code, _, error = call(name, followed.run.id, *others)
    assert code == 2
    assert "a script" in error


def test_profiler_that_fails_is_a_sentence_and_training_goes_on(
    begin: Callable[..., Followed], recipe: str, call: Call
) -> None:
    """The framework of these tests has no profiler."""
    followed = begin(make_spec(recipe, epochs=FOREVER, batch_size=4)).until_trained()
    code, _, error = call("trace", followed.run.id, "--ranks", "0,7")
    assert code == 2
    assert "has the ranks 0 on this machine" in error
    code, out, error = call("trace", followed.run.id, "--steps", "3")
    assert (code, out) == (2, "")
    assert "Rank 0 could not be traced" in error
    assert "Training goes on" in error
    followed.until_trained(followed.run.facts.step + 100)
    assert ["Rank 0 could not be traced" in each for each in followed.run.facts.notices] == [True]


@pytest.mark.slow
def test_ranks_of_another_machine_take_the_change_also_after_a_resume(
    server: SshServer, fake_python: Path, begin: Callable[..., Followed], recipe: str, call: Call
) -> None:
    """If a rank did not know the number of epochs, it would wait for the others for ever."""
    add_host("one", f"env TRAINYARD_PYTHON_PYTORCH={fake_python} {TRAINYARD}")
    spec = make_spec(recipe, epochs=FOREVER, batch_size=4, strategy="ddp", checkpoints={"unit": "never"})
    followed = begin(replace(spec, devices=("cpu:0", "one/cpu:0"))).until_trained(EPOCH)
    code, _, error = call("trace", followed.run.id, "--ranks", "1")
    assert code == 2
    assert "has the ranks 0 on this machine" in error
    assert call("set", followed.run.id, f"epochs={FOREVER + 1}")[0] == 0
    assert followed.pause().state is RunState.PAUSED
    again = Followed(Run.resume(followed.run.dir)).until_trained(followed.run.facts.step + EPOCH)
    assert again.run.facts.plan.epochs == FOREVER + 1
    assert call("set", followed.run.id, "--finish")[0] == 0
    assert again.until_over().state is RunState.FINISHED
    assert again.run.facts.step == EPOCH * again.run.spec().training.epochs
