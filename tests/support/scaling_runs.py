"""Records of scaling tables with runs that were written, not trained."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.config.choices import RecipeChoices
from core.devices.cpu import cpu_devices
from core.results.scaling_record import FIXED, ScalingRecord, new_record, plan_specs
from core.runs.directory import keep_workload
from core.schema.spec import RunSpec
from tests.support.written_runs import BEGAN, ONE_PART, values, write_run

HELD_RECIPE = """\
import os, pathlib, time

def model():
    pass

def train_data():
    return list(range(64))

def val_data():
    return []

def loss():
    held = pathlib.Path({held!r})
    def measure(weight, items):
        while held.exists() and "2-devices" in os.environ["TRAINYARD_RUN"]:
            time.sleep(0.01)
        return weight
    return measure
"""
"""A recipe whose training on two devices makes no step as long as a file exists."""
CPUS = [replace(cpu_devices()[0], id=f"cpu:{number}", label=f"CPU {number}") for number in range(6)]


def planned(*devices: str, batch: str = FIXED, framework: str = "pytorch", **changes: Any) -> list[RunSpec]:
    choices = RecipeChoices(recipe="digits_mlp", devices=devices, framework=framework, **changes)
    return plan_specs(choices, CPUS, name="table", batch=batch)


STEPS, PER_EPOCH = 8, 4
LOSSES = [2.0, 1.5, 1.2, 1.0, 0.9, 0.8, 0.7, 0.6]


def recorded(root: Path, runs: Sequence[Path] = (), *, repeats: int = 1, **changes: Any) -> ScalingRecord:
    """Return a record whose runs, written by `trained`, are given by repeat: first those on one device."""
    specs = planned("cpu:0", "cpu:1", **changes)
    record = new_record(root, specs, name="table", batch=changes.get("batch", FIXED), repeats=repeats)
    for (spec, repeat), run in zip(record.cells, runs, strict=False):
        record = record.with_run(len(spec.devices), repeat, run)
    return record


def trained(
    root: Path, name: str, devices: int, step_s: float, losses: Iterable[float] = LOSSES, *,
    first_s: float = 100.0, states: Any = ONE_PART, recipe: str = "", **more: Any,
) -> Path:
    """Write a run of two epochs: its first one takes `first_s` seconds, each further step `step_s`."""
    found = list(losses)
    plan = {"t": BEGAN, "kind": "plan", "epochs": 2, "steps_per_epoch": PER_EPOCH, "samples_per_epoch": 128}
    events = [plan, values(1, 1, first_s, loss=found[:PER_EPOCH])]
    if rest := found[PER_EPOCH:]:
        events.append(values(PER_EPOCH + 1, first_s + step_s, first_s + len(rest) * step_s, loss=rest))
    readings = [
        {"t": BEGAN + 2, "kind": "sample", "device": f"cpu:{number}", "memory_used_bytes": 1000 * (number + 1)}
        for number in range(devices)
    ]
    spec = planned("cpu:0", "cpu:1")[devices - 1]
    if recipe:
        spec = replace(spec, recipe=replace(spec.own_recipe, path=recipe))
    run_dir = write_run(root, name, events, spec=spec, states=states, devices=readings, **more)
    keep_workload(run_dir, spec)
    return run_dir
