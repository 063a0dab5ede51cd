"""Measured memory: predicted and real peaks, the largest batch under a limit, and what a killed measurement leaves."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from core.companions import companions_of
from core.doctor.watch import DoctorWatch
from core.fit.answer import predicted_peaks
from core.fit.probe import Measured
from core.fit.probe import probes as opened
from core.history import index
from core.notifications.start import Notifier
from core.queue.claims import Claims
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.event_kinds import MemoryPeak, read_all
from core.system import processes
from tests.support.commands import ROOT, call
from tests.support.running import make_spec, train, write_recipe
from tests.support.waiting import wait_until

PYTORCH = """
import torch
from torch import nn

def model(width=4096):
    return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))

def stages():
    return list(model())

def train_data(items=40_000):
    torch.manual_seed(0)
    return torch.randn(items, 4), torch.randint(0, 2, (items,))

def val_data():
    return train_data(2_000)
"""
KERAS = """
import keras
import numpy

def model(width=4096):
    return keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(width, "relu"), keras.layers.Dense(2)])

def train_data(items=40_000):
    numbers = numpy.random.default_rng(0)
    return numbers.normal(size=(items, 4)).astype("float32"), numbers.integers(0, 2, items)

def val_data():
    return train_data(2_000)
"""
PLACED = """

class Parts(nn.Module):
    def __init__(self, devices, width=4096):
        super().__init__()
        self.first, self.second = devices
        self.body = nn.Sequential(nn.Linear(4, width), nn.ReLU()).to(self.first)
        self.head = nn.Linear(width, 2).to(self.second)

    def forward(self, inputs):
        return self.head(self.body(inputs.to(self.first)).to(self.second))

def placed_model(devices):
    return Parts(devices)
"""
CELLS = [
    ("pytorch", "single", "cpu:0"),
    ("pytorch", "ddp", "cpu:0,cpu:1"),
    ("pytorch", "fsdp", "cpu:0,cpu:1"),
    ("pytorch", "pipeline", "cpu:0,cpu:1"),
    ("pytorch", "placement", "cpu:0,cpu:1"),
    ("tensorflow", "single", "cpu:0"),
    ("tensorflow", "mirrored", "cpu:0,cpu:1"),
    ("tensorflow", "towers", "cpu:0,cpu:1"),
    ("keras", "single", "cpu:0"),
    ("keras", "mirrored", "cpu:0,cpu:1"),
]
PROBES = ".probes"
IN_SUITE = {("pytorch", "ddp"), ("tensorflow", "single"), ("keras", "mirrored")}
"""The others take a quarter of an hour together."""


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "strategy", "devices"), [
    pytest.param(*cell, marks=() if cell[:2] in IN_SUITE else pytest.mark.soak) for cell in CELLS
])
def test_predicted_peaks_are_those_of_whole_trainings(framework, strategy, devices, tmp_path: Path, capsys) -> None:
    placed = PLACED if strategy == "placement" else ""
    recipe = write_recipe(tmp_path, PYTORCH + placed if framework == "pytorch" else KERAS)
    # Tensors below 32 MB are parts of larger pieces of memory, and the C library leaves gaps between them.
    more = {"micro_batches": 2} if strategy == "pipeline" else {}
    given = (recipe, "--framework", framework, "--strategy", strategy, "--devices", devices)
    given += ("--micro-batches", 2) if more else ()
    code, out, err = call(capsys, "fit", *given, "--batch-size", 4096, "--runs", tmp_path / "runs", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert [each["batch"] for each in found["measured"]] == [4096, 16384]
    measured = [(each["batch"], each["peak_bytes"]) for each in found["measured"]]
    points = [Measured(batch=batch, peaks=peaks, left={}, items=None) for batch, peaks in measured]
    grown = sum(points[1].peaks.values()) / sum(points[0].peaks.values())
    assert grown > 1.5, "else any line fits"
    for batch in (4096, 8192, 12288):
        spec = make_spec(recipe, framework=framework, strategy=strategy, devices=devices, batch_size=batch, epochs=1,
                         **more)
        followed = train(spec, tmp_path / "runs")
        assert followed.state is RunState.FINISHED, followed.run.facts.error
        real: dict[str, int] = {}
        for each in read_all(MemoryPeak, Run.attach(followed.run.dir).poll()):
            real[each.device] = real.get(each.device, 0) + each.peak_bytes
        facts = followed.run.facts  # each device of a process has a reading of the whole process
        sampled = max(each.peak_bytes or 0 for each in facts.releases.values()) * len(facts.workers)
        assert 0 < 0.95 * sampled < sum(real.values())
        predicted = predicted_peaks(points, batch)
        assert predicted == pytest.approx(real, rel=0.05), f"{batch}: {predicted} {real}"
    assert not (tmp_path / "runs" / PROBES).exists()


COUNTS = PYTORCH + """
def loss():
    def measure(output, target):
        print("measured", flush=True)
        return nn.functional.cross_entropy(output, target)
    return measure
"""


@pytest.mark.parametrize(("framework", "strategy", "devices"), [CELLS[0], CELLS[1], CELLS[5], CELLS[-2]])
def test_measurement_makes_few_steps_and_validates_one_batch(framework, strategy, devices, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, COUNTS if framework == "pytorch" else KERAS)
    spec = make_spec(recipe, framework=framework, strategy=strategy, devices=devices, training_metrics=False)
    followed = train(replace(spec, probe_steps=3, training=replace(spec.training, epochs=1)), tmp_path / "runs")
    assert (followed.state, followed.run.facts.step) == (RunState.FINISHED, 3), followed.run.facts.error
    plan = followed.run.facts.plan
    assert plan is not None
    assert plan.samples_per_epoch == 40_000  # which bounds the largest batch
    assert {"loss", "val_loss"} <= {*followed.run_series.metrics}
    if framework == "pytorch":
        assert followed.run.log_end().count("measured") == (3 + 1) * len(spec.devices)


def test_peaks_of_processes_that_serve_are_recorded_too(tmp_path: Path) -> None:
    spec = make_spec("digits_mlp", framework="tensorflow", strategy="parameter_server", devices="cpu:0,cpu:1", epochs=1)
    followed = train(replace(spec, allow_open_ports=True), tmp_path / "runs")
    assert followed.state is RunState.FINISHED, followed.run.facts.error
    ranks = [each.rank for each in read_all(MemoryPeak, Run.attach(followed.run.dir).catch_up())]
    assert sorted(ranks) == [*followed.run.facts.workers] == [0, 1, 2, 3]


def test_nothing_is_told_of_a_measurement(tmp_path: Path) -> None:
    spec = make_spec("digits_mlp")
    kinds = [{type(each) for each in companions_of(tmp_path, replace(spec, probe_steps=steps), Claims("run", {}))}
             for steps in (0, 3)]
    assert kinds[0] - kinds[1] == {Notifier, DoctorWatch}


def _command(limit_bytes: int | None, *words: object) -> subprocess.Popen[str]:
    """Start a command whose workers may ask for so much memory."""
    kilobytes = limit_bytes // 1024 if limit_bytes else "unlimited"
    shell = ["sh", "-c", f'ulimit -S -d {kilobytes}; exec "$@"', "sh"]
    command = [*shell, sys.executable, "-m", "core.cli", *map(str, words)]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize("devices", ["cpu:0", pytest.param("cpu:0,cpu:1", marks=pytest.mark.soak)])
def test_largest_batch_trains_under_the_limit_and_twice_as_much_does_not(devices, tmp_path: Path) -> None:
    # PyTorch built for CUDA takes three times as much for itself.
    data = "import re, torch; print(re.search(r'VmData:\\s*(\\d+)', open('/proc/self/status').read())[1])"
    limit = 1024 * int(subprocess.check_output([sys.executable, "-c", data])) + 600 * 1024**2
    recipe = write_recipe(tmp_path, PYTORCH.replace("40_000", "2_000_000"))

    def finished(*words: object) -> tuple[int, dict]:
        command = _command(limit, *words, recipe, "--devices", devices, "--runs", tmp_path / "runs", "--json")
        out, err = command.communicate()
        assert out, err
        return command.returncode, json.loads(out)

    code, found = finished("fit", "--batch-size", 4096, "--largest")
    assert (code, found["fits"], found["proved"]) == (0, True, True)
    largest = found["largest_batch"]
    assert largest > 4096
    short = ("--epochs", 1, "--steps-per-epoch", 50)
    code, run = finished("run", "--batch-size", largest, *short)
    assert (code, run["steps"]) == (0, 50)
    code, run = finished("run", "--batch-size", 2 * largest, *short)
    assert code == 1
    assert "memory" in run["error"]


ONE_RANK = PYTORCH + """
import torch.distributed as dist

def loss():
    def measure(output, target):
        if dist.get_rank() == 1 and len(target) > 8:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes.")
        return nn.functional.cross_entropy(output, target)
    return measure
"""


def test_rank_without_memory_ends_the_measurement_while_the_others_wait(tmp_path: Path, capsys) -> None:
    recipe = write_recipe(tmp_path, ONE_RANK)
    given = ("--devices", "cpu:0,cpu:1", "--batch-size", 64, "--runs", tmp_path / "runs")
    code, out, err = call(capsys, "fit", recipe, *given)
    assert code == 1
    assert "Does not fit at batch 64. " in out
    assert "The largest batch is about 24, with " in out
    assert [line for line in err.splitlines() if "Measuring" in line][1:] == [
        f"trainyard: Measuring batch {batch}, strategy ddp, float32, accumulation 1." for batch in (32, 16, 8)
    ]


def test_other_settings_are_measured_where_the_training_can_have_them(tmp_path: Path, capsys) -> None:
    recipe = write_recipe(tmp_path, PYTORCH)
    given = ("--devices", "cpu:0,cpu:1", "--batch-size", 8192, "--runs", tmp_path / "runs", "--json")
    _, out, _ = call(capsys, "fit", recipe, *given, "--other")
    found = {each["id"]: sum(each["peak_bytes"].values()) for each in json.loads(out)["remedies"]}
    assert set(found) == {"fsdp", "bfloat16", "accumulation"}
    asked = sum(each["peak_bytes"] for each in json.loads(out)["devices"].values())
    assert found["accumulation"] < asked
    _, out, _ = call(capsys, "fit", recipe, "--devices", "cpu:0", *given[2:], "--other")
    assert {each["id"] for each in json.loads(out)["remedies"]} == {"bfloat16", "accumulation"}


LONG_ITEMS = """
import torch
from torch import nn

class Mean(nn.Module):
    def forward(self, inputs):
        return inputs.mean(1)

def model():
    return nn.Sequential(Mean(), nn.Linear(4, 2))

def train_data(items=4_000, length=2):
    return torch.randn(items, length, 4), torch.randint(0, 2, (items,))

def probe_data(items):
    return train_data(items, length=8_192)
"""


def test_longest_items_are_measured_where_the_recipe_has_them(tmp_path: Path, capsys) -> None:
    peaks = []
    for source in (LONG_ITEMS, LONG_ITEMS.replace("probe_data", "other_data")):
        recipe = write_recipe(tmp_path, source)
        given = ("--devices", "cpu:0", "--batch-size", 64, "--runs", tmp_path / "runs", "--json")
        _, out, err = call(capsys, "fit", recipe, *given)
        peaks.append(json.loads(out)["devices"]["cpu:0"]["peak_bytes"])
        assert ("other_data() of the recipe is not one that a run calls" in err) == ("other_data" in source)
    assert peaks[0] - peaks[1] > 64 * 8_192 * 4 * 4  # a batch, at least


def test_measurement_that_fails_for_another_reason_says_which(tmp_path: Path, capsys) -> None:
    recipe = write_recipe(tmp_path, PYTORCH + "\ndef loss():\n    raise RuntimeError('not today')\n")
    code, _, err = call(capsys, "fit", recipe, "--devices", "cpu:0", "--runs", tmp_path / "runs")
    assert code == 1
    assert "The memory could not be measured at batch 64." in err
    assert "not today" in err


WRITES = PYTORCH + """
from pathlib import Path

def on_epoch_end(model, metrics, folder):
    torch.save(model.state_dict(), folder / "weights.pt")
    Path("{file}").write_text("written")
"""


def test_recipe_that_writes_files_is_named_before(tmp_path: Path, capsys) -> None:
    recipe = write_recipe(tmp_path, WRITES.replace("{file}", str(tmp_path / "written")))
    lines = [number for number, line in enumerate(Path(recipe).read_text().splitlines(), 1) if "write" in line
             or "save" in line]
    code, _, err = call(capsys, "fit", recipe, "--devices", "cpu:0", "--runs", tmp_path / "runs")
    assert code == 0
    said, *rest = err.splitlines()
    assert f"recipe.py writes files (line {lines[0]} and line {lines[1]}). The measurement calls its functions" in said
    assert "Measuring batch 64" in rest[0]
    assert (tmp_path / "written").exists()
    assert not (tmp_path / "runs" / PROBES).exists()


KILLS = [
    *((stage, ("core.cli",)) for stage in ("folder", "run", "worker", "step", "second")),
    ("step", ("core.cli", "core.check.keeper")), ("step", ("core.check.keeper",)), ("step", ("core.supervisor",)),
    ("worker", ("boot.py",)),
]


def _reached(stage: str, probes: Path) -> bool:
    """Return whether a measurement has come so far."""
    runs = [file.parent for file in probes.glob("*/*/spec.json")]
    events = [file.read_text() for run in runs for file in run.glob("events/worker-*.jsonl")]
    return {
        "folder": any(probes.glob("*")), "run": bool(runs), "worker": bool(events),
        "step": any('"ready"' in text for text in events), "second": len(runs) > 1,
    }[stage]


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize(("stage", "victims"), KILLS)
def test_killed_measurement_leaves_nothing(stage: str, victims: Sequence[str], tmp_path: Path, monkeypatch) -> None:
    recipe = write_recipe(tmp_path, PYTORCH)
    root, probes = tmp_path / "runs", tmp_path / "runs" / PROBES
    command = _command(None, "fit", recipe, "--devices", "cpu:0", "--runs", root)
    wait_until(lambda: _reached(stage, probes), stage)
    names = [file.parent.name for file in probes.glob("*/*/spec.json")]
    assert index.directories(root) == []
    killed = 0
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if any(str(root) in word for word in words) and any(word.endswith(victims) for word in words):
            process.kill()
            killed += 1
    assert killed or "core.cli" not in victims
    _, err = command.communicate()
    if victims == ("core.check.keeper",):
        assert command.returncode == 0
    elif "core.cli" not in victims:
        assert (command.returncode, "could not be measured at batch 64." in err) == (1, True)
    elif "core.check.keeper" in victims:  # the next measurement finds what was left
        assert probes.exists()
        monkeypatch.setattr("core.fit.probe.YOUNG_S", -1.0)
        with opened(root):
            pass
    wait_until(lambda: not probes.exists(), "the removal of the folder")
    for name in names:
        wait_until(lambda name=name: not processes.tagged(name), "the end of its processes")
    assert [*root.iterdir()] == []
