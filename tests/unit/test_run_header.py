"""The header of the run view: progress, rate and time left of a script."""

import math
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

    def make(*events: dict, at: float, finished: bool = False, spec: RunSpec | None = None, words: str = ""):
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
        return run_header(session.snapshot(), words=words)

    return make


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize(("last", "is_problem"), [(0.5, False), (math.nan, True), (math.inf, True)])
def test_run_whose_last_loss_is_no_number_has_no_mark_of_success(header, *, last, is_problem, finished):
    measured = {"t": NOW + 1, "kind": "metrics", "since": NOW, "first": 1, "values": {"loss": [0.9, last]}}
    shown = header(measured, at=9, finished=finished)
    usual = ("good", "tick") if finished else ("accent", "ring")
    assert (shown.tone, shown.mark) == (("warn", "alert") if is_problem else usual)
    assert ("not a number" in shown.sentence) is is_problem
    assert shown.label == ("Finished" if finished else "Running")


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


@pytest.mark.parametrize(
    ("unit", "finished", "title"),
    [
        ("steps", False, "34 % train lr 0.05 · seed 2"), (IN_EPOCH, False, "train lr 0.05 · seed 2"),
        ("", True, "train lr 0.05 · seed 2"), (None, False, "train lr 0.05 · seed 2"),
    ],
)
def test_title_has_the_share_that_is_done_where_it_is_known_and_what_is_different(header, unit, finished, title):
    events = [] if unit is None else [progress_event(349, 1000, unit, at=1)]
    assert header(*events, at=2, finished=finished, words="lr 0.05 · seed 2").title == title


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


def counted(first: float, every: float, total: float, unit: str, *, at: range, per: float = 1) -> list[dict]:
    """Progress that grows by `every`, reported every `per` seconds."""
    return [progress_event(first + every * number, total, unit, at=per * second) for number, second in enumerate(at, 1)]


TENS = counted(0, 10, 1000, "steps", at=range(1, 35))
EPOCHS = counted(0, 1, 10, "epochs", at=range(1, 4), per=60)
SHORT = counted(0, 1, 3, "epochs", at=range(1, 4), per=60)
BATCHES = counted(0, 10, 100, IN_EPOCH, at=range(1, 8))


@pytest.mark.parametrize(
    ("events", "at", "finished", "epoch", "fraction", "detail"),
    [
        ([], 9, False, "", None, ""),
        ([], 200, True, "", None, "took 3:20"),
        (TENS, 34, False, "step 340 of 1\u2009000", 0.34, "10 steps/s · 1:06 left"),
        ([*TENS, progress_event(1000, 1000, "steps", at=100)], 101, True, "step 1\u2009000 of 1\u2009000", 1.0,
         "took 1:41"),  # nothing has a speed any more
        # the rate is the recent rate, and begins again with the count
        (counted(0, 1, 1000, "steps", at=range(1, 101)) + counted(100, 5, 1000, "steps", at=range(101, 181)), 180,
         False, "step 500 of 1\u2009000", 0.5, "5.0 steps/s · 1:40 left"),
        (counted(0, 1, 100, "steps", at=range(1, 101)) + counted(0, 2, 100, "steps", at=range(101, 131)), 130, False,
         "step 60 of 100", 0.6, "2.0 steps/s · 0:20 left"),
        (EPOCHS, 180, False, "epoch 3 of 10", 0.3, "7:00 left"),
        (EPOCHS, 210, False, "epoch 3 of 10", 0.3, "6:30 left"),  # it goes down between two epochs
        (EPOCHS[:1], 70, False, "epoch 1 of 10", 0.1, "– left"),
        (SHORT, 181, False, "epoch 3 of 3", 1.0, "– left"),  # the last epoch may just have started
        (SHORT[:2], 9999, False, "epoch 2 of 3", 2 / 3, "– left"),  # no progress for a long time
        ([progress_event(3, 7, "", at=1)], 2, False, "3 of 7", 3 / 7, None),
        ([progress_event(2.345, 3, "epochs", at=1)], 2, False, "epoch 2.35 of 3", 2.345 / 3, None),
        ([progress_event(3, 0, "steps", at=1)], 2, False, None, None, None),
        ([progress_event(9, 7, "steps", at=1)], 2, False, None, 1.0, None),
        # progress within an epoch is not progress of the run
        (BATCHES, 7, False, "70 of 100 in this epoch", 0.7, "0:03 left in this epoch"),
        (BATCHES, 9, True, "", None, "took 0:09"),
    ],
)
def test_progress_of_a_script_has_a_rate_and_a_time_left(header, events, at, finished, epoch, fraction, detail):
    """None: this text is not compared."""
    now = header(*events, at=at, finished=finished)
    assert now.fraction == (fraction if fraction is None else pytest.approx(fraction))
    assert epoch in {None, now.epoch}
    assert detail in {None, now.detail}


def test_watch_of_the_memory_has_its_own_seconds(monkeypatch):
    history = ((NOW, RunState.STARTING), (NOW + 2, RunState.RUNNING), (NOW + 7, RunState.RELEASING))
    facts = RunFacts(state=RunState.RELEASING, history=history)
    monkeypatch.setattr(time, "time", lambda: NOW + 67)
    run_series = folded({"t": NOW + 3, "kind": "metrics", "first": 1, "values": {"loss": [0.5]}})
    session = RunSession()
    session.run = SimpleNamespace(owner=None, id="a-run", dir=Path("/x"), facts=facts)
    session.run_series, session.spec = run_series, spec_of()
    assert run_header(session.snapshot()).detail == "loss 0.500 · took 0:04 · memory check 1:00"
