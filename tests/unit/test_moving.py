"""Which runs can go on on other devices, or with another strategy; what those that do say about it."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.config import moving
from core.diagnosis.timeline import Timeline
from core.runs.facts import RunFacts
from core.runs.fold import fold
from core.runs.run import Run
from core.schema import event_kinds as kinds
from core.schema.paths import CHECKPOINTS
from core.schema.spec import write_spec
from tests.support.running import folded, make_spec, write_recipe
from tests.support.written_runs import BEGAN, values

TWO = {"devices": ("cpu:0", "cpu:1"), "strategy": "ddp"}
OPEN = {"framework": "tensorflow", "strategy": "multi_worker_mirrored"}
POWERSGD = {**TWO, "gradient_compression": "powersgd"}
STEPS = "def model():\n    pass\n\ndef train_data():\n    pass\n\ndef training_step(model, batch):\n    pass\n"
MANIFEST = {"version": 1, "step": 5, "epoch": 0, "steps_per_epoch": 9, "value": None, "progress": {}, "files": {}}


def run_of(root: Path, changes: Mapping[str, Any], manifest: Mapping[str, Any] | None = None) -> Run:
    """Return a run of a recipe with steps of its own. `manifest`: of its checkpoint; None for none."""
    run_dir = root / "one"
    run_dir.mkdir()
    training = {name: value for name, value in changes.items() if name == "gradient_compression"}
    spec = make_spec(write_recipe(root, STEPS, "steps"), devices="cpu:0", **training)
    write_spec(run_dir, replace(spec, **{name: value for name, value in changes.items() if name not in training}))
    if manifest is not None:
        folder = run_dir / CHECKPOINTS / "step-00000005"
        folder.mkdir(parents=True)
        (folder / "checkpoint.json").write_text(json.dumps(manifest))
    return Run.attach(run_dir)


@pytest.mark.parametrize(
    ("changes", "devices", "strategy", "manifest", "sentence"),
    [
        ({}, ("node/cpu:0",), None, None, "since some are of another machine. Resume it as it is"),
        ({"devices": ("cpu:0", "node/cpu:0"), "strategy": "ddp"}, ("cpu:0",), None, None, "of another machine"),
        ({}, (), "zero", None, "PyTorch has no strategy 'zero' here. Choose one of: single, ddp"),
        (TWO, (), "pipeline", None, "no device has the whole model"),
        (OPEN, ("cpu:0", "cpu:1"), None, None,
         "can only be resumed with strategy multi_worker_mirrored on 1 device, since the processes of multi_worker_mi"),
        (POWERSGD, ("cpu:0",), None, None,
         "Run one can only be resumed with strategy ddp on 2 devices, since PowerSGD keeps on each device"),
        (TWO, ("cpu:0",), "single", MANIFEST, "step-00000005 was written by an earlier version of Trainyard"),
    ],
)
def test_what_cannot_go_on_is_refused_with_the_reason(
    tmp_path: Path, changes: dict[str, Any], devices: tuple[str, ...], strategy: str | None,
    manifest: dict[str, Any] | None, sentence: str,
) -> None:
    run = run_of(tmp_path, changes, manifest)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        moving.moved(run, devices, strategy)


@pytest.mark.parametrize(
    ("changes", "devices", "strategy", "manifest"),
    [
        (TWO, ("cpu:1", "cpu:2"), None, MANIFEST),  # divided as before
        (OPEN, ("cpu:1",), None, None),
        (POWERSGD, ("cpu:1", "cpu:2"), None, None),
        (TWO, ("cpu:1",), "single", {**MANIFEST, "devices": []}),
        (TWO, ("cpu:1",), None, {}),  # broken: the training says so
    ],
)
def test_others_go_on_and_it_is_said_what_will_differ(
    tmp_path: Path, changes: dict[str, Any], devices: tuple[str, ...], strategy: str | None,
    manifest: dict[str, Any] | None,
) -> None:
    run = run_of(tmp_path, changes, manifest)
    before, after = run.spec(), moving.moved(run, devices, strategy)
    assert (after.devices, after.strategy) == (devices, strategy or before.strategy)
    is_divided_anew = len(after.devices) != len(before.devices) or after.strategy != before.strategy
    assert ("such as dropout" in moving.caution(before, after)) is is_divided_anew


def part(at: float, device: str, first: int, moved: str = "") -> list[dict[str, Any]]:
    """Return the events of a part of a run: four steps on a device, and a pause. `moved`: the device before."""
    records = [
        kinds.SupervisorStart(time=at, pid=7, created=at),
        kinds.StateChange(time=at, state="starting"),
        kinds.RunDevice(time=at, id=device, label=device.upper()),
        *([kinds.Moved(time=at, text=f"Resumed on {device}, not {moved}.", devices=(device,), where=f"{device} (ddp)")]
          if moved else []),
        kinds.WorkerStart(time=at + 0.1, rank=0, pid=8, created=at, devices=(device,)),
        kinds.ModelPart(time=at + 0.1, rank=0, device=device, parameters=("weight",), where="cpu"),
        *([kinds.Rewind(time=at + 0.2, step=first - 1)] if first > 1 else []),
        kinds.StateChange(time=at + 0.2, state="running"),
    ]
    steps = values(first, at + 1 - BEGAN, at + 4 - BEGAN, loss=[1.0, 0.9, 0.8, 0.7])
    ends = [kinds.StateChange(time=at + 4 + late, state=name) for late, name in ((0.1, "releasing"), (0.2, "paused"))]
    return [*(each.event() for each in records), steps, *(each.event() for each in ends)]


def test_facts_events_and_series_say_where_the_devices_changed() -> None:
    last = part(BEGAN + 40, "cpu:1", 8)
    events = [*part(BEGAN, "cpu:0", 1), *part(BEGAN + 20, "cpu:1", 4, moved="cpu:0")]
    moved = fold(RunFacts(), events)
    assert (list(moved.devices), list(moved.parts)) == (["cpu:1"], ["cpu:1"])
    assert moved.notices == ("Resumed on cpu:1, not cpu:0.",)
    again = fold(moved, last)
    assert (list(again.devices), again.notices) == (["cpu:1"], ()), "it has not moved again"

    events += last
    timeline = Timeline(None, "PyTorch")
    timeline.fold(events)
    assert [each.text for each in timeline.entries if " on " in each.text] == [
        "Started on CPU:0: 1 process.", "Resumed on cpu:1, not cpu:0.", "Resumed on CPU:1: 1 process.",
        "Resumed on CPU:1: 1 process.",
    ]

    series = folded(*events)
    assert series.changes == {3: (BEGAN + 20, "cpu:1 (ddp)")}
