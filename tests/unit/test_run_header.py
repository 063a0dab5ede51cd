"""The header of the run view: progress, rate and time left of a script."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.diagnosis.timeline import Timeline
from core.metrics.reading import IN_EPOCH
from core.runs.facts import RunFacts, RunState
from core.runs.fold import fold
from core.schema.event_kinds import Checkpoint
from core.schema.settings import Recipe, Script
from core.schema.spec import RunSpec
from core.series.run_series import RunSeries
from gui.runs.progress import progress_view
from gui.runs.reading import take_in
from gui.runs.session import RunSession
from gui.runs.words import RunSnapshot, run_header
from tests.support.running import folded

NOW = 1_700_000_000.0


def spec_of(launch: str = "one", devices: tuple[str, ...] = ("cpu:0", "cpu:1")) -> RunSpec:
    return RunSpec(
        name="train", framework="script", strategy=launch, script=Script(path="/x/train.py"), devices=devices,
        python="/usr/bin/python3", working_dir="/x",
    )


def progress_event(done: float, total: float, unit: str, *, at: float) -> dict:
    return {"t": NOW + at, "kind": "progress", "done": done, "total": total, "unit": unit}


@pytest.fixture
def header(monkeypatch):
    """The header of a script's run `at` seconds after its start, given these events."""

    def make(*events: dict, at: float, finished: bool = False, spec: RunSpec | None = None):
        states = ["starting", "running", *(["releasing", "finished"] if finished else [])]
        times = [0.0, 0.0, *([at, at] if finished else [])]
        life = [{"t": NOW + when, "kind": "state", "state": state} for when, state in zip(times, states, strict=True)]
        every = sorted([*life, *events], key=lambda event: event["t"])
        session = RunSession()
        facts = fold(RunFacts(), every)
        assert not facts.notices
        session.run = SimpleNamespace(owner=None, id="a-run", dir=Path("/x"), facts=facts, add_notice=lambda _: None)
        session.run_series, session.spec = RunSeries(), spec or spec_of()
        session.timeline = Timeline(None, "")
        take_in(session._read_run(), every)
        monkeypatch.setattr(time, "time", lambda: NOW + at)
        assert facts.state is (RunState.FINISHED if finished else RunState.RUNNING)
        return run_header(session.snapshot())

    return make


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        (spec_of(), "Script, one process on 2 devices"),
        (spec_of(devices=("cpu:0",)), "Script, one process on 1 device"),
        (spec_of("per-device"), "Script, one process per device on 2 devices"),
    ],
)
def test_header_names_how_the_script_was_started(header, spec, what):
    assert (header(at=1, spec=spec).name, header(at=1, spec=spec).what) == ("train", what)


def test_header_of_a_starting_run_says_what_it_does(monkeypatch):
    events = [
        {"t": NOW, "kind": "supervisor", "pid": 7, "created": 3.5},
        {"t": NOW, "kind": "state", "state": "starting"},
        {"t": NOW, "kind": "worker", "rank": 0, "pid": 8, "created": 3.6, "devices": ["cpu:0"]},
        {"t": NOW + 1, "kind": "phase", "rank": 0, "name": "framework"},
    ]
    monkeypatch.setattr(time, "time", lambda: NOW + 4.2)
    starting = run_header(snapshot(fold(RunFacts(), events)))
    assert (starting.label, starting.epoch, starting.fraction, starting.detail) == (
        "Starting", "", None, "loading PyTorch 3 s"
    )
    assert starting.starting == starting.detail
    stopping = fold(RunFacts(), [*events, {"t": NOW + 2, "kind": "state", "state": "stopping"}])
    assert run_header(snapshot(stopping)).starting == ""


@pytest.mark.parametrize(("saved", "where", "share"), [(True, "from step 7", 0.7), (False, "from the beginning", 0.0)])
def test_resumed_run_keeps_its_bar_and_says_from_where_it_goes_on(monkeypatch, saved, where, share):
    checkpoint = {"t": NOW, "kind": "checkpoint", "step": 7, "name": "step-7", "reason": "pause"}
    losses = {"t": NOW, "kind": "metrics", "first": 1, "values": {"loss": [0.5] * 8}}
    plan = {"t": NOW, "kind": "plan", "epochs": 5, "steps_per_epoch": 2, "samples_per_epoch": 64}
    events = [
        {"t": NOW, "kind": "supervisor", "pid": 7, "created": 3.5},
        *({"t": NOW, "kind": "state", "state": state} for state in ("starting", "running")),
        plan, losses, *([checkpoint] if saved else []),
        *({"t": NOW, "kind": "state", "state": state} for state in ("releasing", "failed")),
        {"t": NOW, "kind": "supervisor", "pid": 9, "created": 4.5},
        {"t": NOW, "kind": "state", "state": "starting"},
        {"t": NOW, "kind": "phase", "rank": 0, "name": "framework"},
    ]
    monkeypatch.setattr(time, "time", lambda: NOW + 3)
    header = run_header(snapshot(fold(RunFacts(), events)))
    assert (header.label, header.epoch, header.fraction, header.detail) == (
        "Resuming", where, share, "loading PyTorch 3 s"
    )
    again = [{"t": NOW, "kind": "rewind", "step": 7}, plan, {"t": NOW, "kind": "phase", "rank": 0, "name": "step"}]
    running = fold(RunFacts(), [*events, *again, {"t": NOW, "kind": "state", "state": "running"}])
    assert (run_header(snapshot(running)).epoch, run_header(snapshot(running)).detail) == (
        "epoch 4 of 5",
        "first step 3 s",
    )


def snapshot(facts: RunFacts) -> RunSnapshot:
    return RunSnapshot(id="a-run", facts=facts, spec=RECIPE_RUN, progress=progress_view(facts, None, time.time()))


RECIPE_RUN = replace(
    spec_of(), framework="pytorch", strategy="single", script=None, recipe=Recipe(name="cnn", path="/x/cnn.py")
)
CHECKPOINT = Checkpoint(step=7, name="step-00000007", time=NOW, reason="epoch")


@pytest.mark.parametrize("state", [RunState.STOPPED, RunState.FAILED, RunState.LOST])
@pytest.mark.parametrize(
    ("spec", "checkpoint", "end"),
    [
        (RECIPE_RUN, CHECKPOINT, "It can be resumed from its last checkpoint."),
        (RECIPE_RUN, None, "It has no checkpoint and can only be started over."),
        (spec_of(), None, ""),
        (None, None, ""),
    ],
)
def test_header_mentions_the_last_checkpoint_only_if_there_is_one(state, spec, checkpoint, end):
    facts = RunFacts(state=state, checkpoint=checkpoint)
    sentence = run_header(RunSnapshot(id="a-run", facts=facts, spec=spec)).sentence
    assert sentence.endswith(end or ".")
    assert ("checkpoint" in sentence) == bool(end)


def test_script_without_progress_has_no_progress_bar(header):
    quiet = header(at=9)
    assert (quiet.epoch, quiet.fraction, quiet.detail) == ("", None, "")
    assert header(at=200, finished=True).detail == "took 3:20"


def test_steps_have_a_rate_and_a_time_left(header):
    steps = [progress_event(10 * second, 1000, "steps", at=second) for second in range(1, 35)]
    now = header(*steps, at=34)
    assert (now.epoch, now.fraction) == ("step 340 of 1\u2009000", 0.34)
    assert now.detail == "10 steps/s · 1:06 left"
    end = header(*steps, progress_event(1000, 1000, "steps", at=100), at=101, finished=True)
    assert (end.epoch, end.fraction) == ("step 1\u2009000 of 1\u2009000", 1.0)
    assert end.detail == "took 1:41"  # nothing has a speed any more


def test_watch_of_the_memory_has_its_own_seconds(monkeypatch):
    history = ((NOW, RunState.STARTING), (NOW + 2, RunState.RUNNING), (NOW + 7, RunState.RELEASING))
    facts = RunFacts(state=RunState.RELEASING, history=history)
    monkeypatch.setattr(time, "time", lambda: NOW + 67)
    run_series = folded({"t": NOW + 3, "kind": "metrics", "first": 1, "values": {"loss": [0.5]}})
    session = RunSession()
    session.run = SimpleNamespace(owner=None, id="a-run", dir=Path("/x"), facts=facts)
    session.run_series, session.spec = run_series, spec_of()
    assert run_header(session.snapshot()).detail == "loss 0.500 · took 0:04 · memory check 1:00"


def test_rate_is_the_recent_rate(header):
    slow = [progress_event(second, 1000, "steps", at=second) for second in range(1, 101)]
    fast = [progress_event(100 + 5 * second, 1000, "steps", at=100 + second) for second in range(1, 81)]
    assert header(*slow, *fast, at=180).detail == "5.0 steps/s · 1:40 left"


def test_time_left_decreases_between_two_epochs(header):
    epochs = [progress_event(number, 10, "epochs", at=60 * number) for number in range(1, 4)]
    assert header(*epochs, at=180).detail == "7:00 left"
    assert header(*epochs, at=210).detail == "6:30 left"
    assert header(*epochs, at=210).epoch == "epoch 3 of 10"


def test_time_left_is_unknown_at_first_and_when_overdue(header):
    first = header(progress_event(1, 10, "epochs", at=60), at=70)
    assert (first.fraction, first.detail) == (0.1, "– left")
    epochs = [progress_event(number, 3, "epochs", at=60 * number) for number in range(1, 4)]
    assert header(*epochs, at=181).detail == "– left", "the last epoch may just have started"
    assert header(*epochs[:2], at=9999).detail == "– left", "no progress for a long time"


def test_progress_without_unit_or_with_odd_counts(header):
    assert header(progress_event(3, 7, "", at=1), at=2).epoch == "3 of 7"
    assert header(progress_event(2.345, 3, "epochs", at=1), at=2).epoch == "epoch 2.35 of 3"
    assert header(progress_event(3, 0, "steps", at=1), at=2).fraction is None
    assert header(progress_event(9, 7, "steps", at=1), at=2).fraction == 1.0


def test_progress_within_an_epoch_is_not_progress_of_the_run(header):
    batches = [progress_event(10 * second, 100, IN_EPOCH, at=second) for second in range(1, 8)]
    now = header(*batches, at=7)
    assert (now.epoch, now.fraction, now.detail) == ("70 of 100 in this epoch", 0.7, "0:03 left in this epoch")
    end = header(*batches, at=9, finished=True)
    assert (end.epoch, end.fraction, end.detail) == ("", None, "took 0:09")


def test_restarted_count_resets_the_rate(header):
    first = [progress_event(number, 100, "steps", at=number) for number in range(1, 101)]
    again = [progress_event(2 * number, 100, "steps", at=100 + number) for number in range(1, 31)]
    assert header(*first, *again, at=130).detail == "2.0 steps/s · 0:20 left"
