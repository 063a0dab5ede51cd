"""Runs that were recorded once: today's command line opens them, shows them and goes on with them.

`tests/recorded_runs` has a run directory of each state; its README says how each was made. The runs are seen through
the command line alone, which stays when modules move.
"""

import json
import os
import shutil
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.commands import call

CODE = Path(__file__).resolve().parents[2]
RECORDED = CODE / "tests" / "recorded_runs"
RECIPES = RECORDED / "recipes"

ASKED = ("--framework pytorch --strategy {strategy} --devices {devices} --name {name} "
         "--set items=32 --set val_items=16 --batch-size 8 --learning-rate 0.1")

Metric = tuple[int, float, float, float]


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What the command line has to tell of a recorded run."""

    state: str
    name: str
    """What the run was called when it was started."""
    command: str
    """The line that starts the same, behind its `cd`; `{recipes}` and `{python}` are this machine's."""
    steps: int
    metrics: dict[str, Metric] = field(default_factory=dict)
    """By name: how many values there are, the first, the last and the least."""
    started: float | None = None
    """None where there is nothing to know it from."""
    ended: float | None = None
    verdict: str | None = None
    peaks: dict[str, int | None] = field(default_factory=dict)
    """By device, the most memory that the run was seen to hold, in bytes."""
    error: str | None = None
    checkpoints: tuple[tuple[str, int, int, str, int], ...] = ()
    """Of each its name, step, epochs done, reason and bytes."""


def line(name: str, strategy: str = "single", devices: str = "cpu:0", every: str = "") -> str:
    """The command of a run of the recipe `linear`."""
    asked = ASKED.format(strategy=strategy, devices=devices, name=name)
    return f"trainyard run {{recipes}}/linear.py {asked}" + (f" --checkpoint-every '{every}'" if every else "")


RATE = {"learning_rate": (1, 0.1, 0.1, 0.1)}
WHOLE = {
    **RATE,
    "loss": (40, 0.354665816, 0.00026894029, 0.00026894029),
    "val_distance": (10, 0.644769043, 0.0143200923, 0.0143200923),
    "val_loss": (10, 0.580484301, 0.00027416466, 0.00027416466),
}
TEN_STEPS = {
    **RATE,
    "loss": (10, 0.354665816, 0.147438914, 0.147438914),
    "val_distance": (2, 0.644769043, 0.424126998, 0.424126998),
    "val_loss": (2, 0.580484301, 0.246262044, 0.246262044),
}
"""Runs of the recipe `linear` on one device are the same training, of which some have only the beginning."""
GONE = "The run's supervisor (pid {}) exited unexpectedly; none of its processes is left. The log is empty."
EXPECTED = {
    "finished": Expected(
        state="finished", name="finished", steps=40, command=line("finished", every="5 epochs"), metrics=WHOLE,
        started=1745383007.384061, ended=1745383008.4590552, verdict="released", peaks={"cpu:0": 0},
    ),
    "finished_ddp": Expected(
        state="finished", name="finished_ddp", steps=40, command=line("finished_ddp", "ddp", "cpu:0,cpu:1"),
        metrics={
            **RATE,
            "loss": (40, 0.354665801, 0.00026894029, 0.00026894029),
            "val_distance": (10, 0.644769058, 0.0143200923, 0.0143200923),
            "val_loss": (10, 0.580484308, 0.000274164653, 0.000274164653),
        },
        started=1745383009.191562, ended=1745383011.3989053, verdict="released",
        peaks={"cpu:0": 272121856, "cpu:1": 265433088},
    ),
    "finished_script": Expected(
        state="finished", name="finished_script", steps=20,
        command="env CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES= taskset --cpu-list 0 "
                "{python} {recipes}/program.py --lr 0.1",
        metrics={"accuracy": (20, 0.05, 1.0, 0.05), "loss": (20, 1.0, 0.05, 0.05)},
        started=1745383012.324642, ended=1745383012.4732573, verdict="released", peaks={"cpu:0": None},
    ),
    "failed": Expected(
        state="failed", name="failed", steps=5,
        command="trainyard run {recipes}/raises.py --framework pytorch --strategy single --devices cpu:0 "
                "--name failed --set items=32 --batch-size 8 --learning-rate 0.001",
        metrics={"learning_rate": (1, 0.001, 0.001, 0.001), "loss": (5, 1.45914769, 1.430305, 1.430305)},
        started=1745383013.1467981, ended=1745383016.8986197, verdict="released", peaks={"cpu:0": 323358720},
        error="Worker 0 on cpu:0: ValueError: the sixth step is one too many.",
    ),
    "stopped": Expected(
        state="stopped", name="stopped", steps=12, command=line("stopped", every="8 epochs"),
        metrics={**TEN_STEPS, "loss": (12, 0.354665816, 0.135862157, 0.126215279)},
        started=1745383017.7150257, ended=1745383021.372167, verdict="released", peaks={"cpu:0": 249180160},
    ),
    "paused": Expected(
        state="paused", name="paused", steps=18, command=line("paused", every="8 epochs"),
        metrics={
            **RATE,
            "loss": (18, 0.354665816, 0.0337435193, 0.0337435193),
            "val_distance": (4, 0.644769043, 0.182096958, 0.182096958),
            "val_loss": (4, 0.580484301, 0.0439982302, 0.0439982302),
        },
        started=1745383027.6719446, ended=1745383033.1383748, verdict="released", peaks={"cpu:0": 249688064},
        checkpoints=(("step-00000018", 18, 4, "pause", 17275),),
    ),
    "resumed": Expected(
        state="finished", name="paused", steps=40, command=line("paused", every="8 epochs"),
        metrics={**WHOLE, "learning_rate": (2, 0.1, 0.1, 0.1)},
        started=1745383027.6719446, ended=1745383035.346116, verdict="released", peaks={"cpu:0": 210931712},
    ),
    "lost": Expected(
        state="lost", name="lost", steps=10, command=line("lost", every="8 epochs"), metrics=TEN_STEPS,
        started=1745383036.2547047, ended=1745383039.8924308, error=GONE.format(5003621),
    ),
    "lost_guarded": Expected(
        state="lost", name="lost_guarded", steps=10, command=line("lost_guarded", every="8 epochs"), metrics=TEN_STEPS,
        started=1745383042.7338536, ended=1745383047.3987021, error=GONE.format(5003632),
    ),
    "never_came_up": Expected(
        state="lost", name="never_came_up", steps=0, command=line("never_came_up"),
        error="The run never started: its supervisor exited before its first event, or was never launched. "
              "The log is empty.",
    ),
}


class Printed(NamedTuple):
    """What a command has printed."""

    stdout: str
    stderr: str


@dataclass(frozen=True)
class Root:
    """A folder of runs, copied from the recorded ones."""

    path: Path
    capsys: pytest.CaptureFixture[str]

    def take(self, name: str) -> None:
        """Copy a recorded run into the folder, as if this machine had made it before its last start."""
        run_dir = self.path / name
        shutil.copytree(RECORDED / name, run_dir)
        for part in ("events", "control", "checkpoints"):  # git keeps no empty folder
            (run_dir / part).mkdir(exist_ok=True)
        for path in [run_dir / "spec.json", run_dir / "log.txt", *(run_dir / "events").iterdir()]:
            path.write_text(self.filled(path.read_text(encoding="utf-8")), encoding="utf-8")
        os.utime(run_dir / "spec.json", (0, 0))  # a run that was written just now may still come up

    def filled(self, text: str) -> str:
        """What was recorded, with this machine's own in place of the words between two @."""
        known = {
            "@RECIPES@": str(RECIPES), "@PYTHON@": sys.executable, "@FOLDER@": str(self.path),
            "@HOST@": socket.gethostname(),
        }
        for placeholder, own in known.items():
            text = text.replace(placeholder, own)
        return text

    def call(self, *arguments: str, code: int = 0) -> Printed:
        """Run a command on the runs of this folder, and see that it ends with this exit code."""
        found, out, err = call(self.capsys, "--runs", self.path, *arguments)
        assert found == code, (out, err)
        return Printed(out, err)

    def json(self, *arguments: str) -> Any:
        """The one JSON document that a command prints."""
        return json.loads(self.call(*arguments, "--json").stdout)

    def rows(self, name: str) -> list[str]:
        """The lines of a run's measurements as CSV, the header first."""
        return self.call("export", name, "--csv", "-").stdout.splitlines()


@pytest.fixture
def root(runs_root: Path, capsys: pytest.CaptureFixture[str]) -> Root:
    """An empty folder for recorded runs."""
    runs_root.mkdir()
    return Root(runs_root, capsys)


def metrics_of(document: dict[str, Any]) -> dict[str, Metric]:
    """The metrics that `show --json` tells, as `Expected` has them."""
    found = document["metrics"].items()
    return {name: (each["count"], each["first"], each["last"], each["min"]) for name, each in found}


def test_every_recorded_run_is_expected_to_be_something() -> None:
    assert {path.parent.name for path in RECORDED.glob("*/spec.json")} == set(EXPECTED)


def test_runs_lists_all_of_them_with_their_states(root: Root) -> None:
    for name in EXPECTED:
        root.take(name)
    rows = {row["run"]: row for row in root.json("runs")}
    assert {name: (row["state"], row["name"], row["step"], row["last_loss"]) for name, row in rows.items()} == {
        name: (each.state, each.name, each.steps, each.metrics["loss"][2] if each.metrics else None)
        for name, each in EXPECTED.items()
    }
    assert rows["resumed"]["started"] == EXPECTED["resumed"].started
    assert rows["resumed"]["ended"] == EXPECTED["resumed"].ended
    assert rows["failed"]["error"] == EXPECTED["failed"].error
    # A list reads no measurements and looks for no processes.
    assert rows["lost"]["ended"] == 1745383037.711209
    assert rows["lost"]["error"] == "The run's supervisor (pid 5003621) exited unexpectedly. The log is empty."


@pytest.mark.parametrize("name", EXPECTED)
def test_run_is_shown_exported_and_can_be_started_the_same(root: Root, name: str) -> None:
    expected = EXPECTED[name]
    root.take(name)
    shown = root.json("show", name)
    asked = json.loads((root.path / name / "spec.json").read_text(encoding="utf-8"))
    assert (shown["run"], shown["dir"]) == (name, str(root.path / name))
    assert shown["state"] == expected.state
    for part in ("script", "training"):  # later versions may have more fields
        if asked.get(part):
            asked[part] = {**shown["spec"][part], **asked[part]}
    assert shown["spec"] == {**shown["spec"], **asked}
    assert shown["steps"] == expected.steps
    assert metrics_of(shown) == expected.metrics
    assert shown["error"] == expected.error
    assert shown["stalled"] is None
    if expected.started is not None:
        assert (shown["started"], shown["ended"]) == (expected.started, expected.ended)
    keys = ("name", "step", "epoch", "reason", "bytes")
    assert [tuple(each[key] for key in keys) for each in shown["checkpoints"]] == list(expected.checkpoints)
    if expected.verdict is None:
        assert shown["release"] is None or shown["release"]["verdict"] is None
    else:
        assert shown["release"]["verdict"] == expected.verdict
        found = shown["release"]["devices"].items()
        assert {device: each["peak_bytes"] for device, each in found} == expected.peaks
        assert [each["verdict"] for _, each in found] == [expected.verdict] * len(expected.peaks)
        assert shown["release"]["ended"] == []
        assert {each["name"] for each in shown["devices"].values()} == {"A processor, 1 core"}
        assert shown["devices"].keys() == expected.peaks.keys()

    header, *rows = root.rows(name)
    assert header == "metric,step,time,value"
    assert len(rows) == sum(metric[0] for metric in expected.metrics.values())
    for metric, (count, first, last, _) in expected.metrics.items():
        values = [float(row.split(",")[3]) for row in rows if row.startswith(f"{metric},")]
        assert (len(values), values[0], values[-1]) == (count, first, last)

    command = expected.command.format(recipes=RECIPES, python=sys.executable)
    if command.startswith("trainyard run"):  # it trained with another Python than a run here would
        command += f" --python {sys.executable}"
    assert root.call("command", name).stdout == f"cd {root.path} && {command}\n"


def test_show_counts_the_reading_of_a_short_memory_watch(root: Root) -> None:
    root.take("finished_script")  # no sample of it has a memory reading
    device = root.json("show", "finished_script")["devices"]["cpu:0"]
    assert (device["memory_peak_bytes"], device["utilisation_mean_percent"]) == (0, None)


def test_show_names_whom_the_guard_ended(root: Root) -> None:
    root.take("lost_guarded")
    shown = root.json("show", "lost_guarded")["release"]
    assert (shown["verdict"], shown["devices"]) == (None, {})
    assert [(each["pid"], each["name"], each["signal"], each["by"]) for each in shown["ended"]] == [
        (5003634, "python", "SIGKILL", "guard")
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("finished", "Run finished is finished: there is nothing to resume. Start it again: trainyard again finished"),
        ("resumed", "Run resumed is finished: there is nothing to resume. Start it again: trainyard again resumed"),
        ("finished_script", "which Trainyard cannot resume. Start it again: trainyard again finished_script"),
    ],
)
def test_a_run_that_cannot_be_resumed_says_so(root: Root, name: str, words: str) -> None:
    root.take(name)
    assert words in root.call("resume", name, code=2).stderr


@pytest.mark.slow
def test_a_paused_run_goes_on_where_it_was(root: Root) -> None:
    """Comes to the values of `finished`, which was asked for the same and never interrupted."""
    root.take("paused")
    before = root.rows("paused")
    assert root.json("resume", "paused")["state"] == "finished"
    shown = root.json("show", "paused")
    assert (shown["state"], shown["steps"], shown["error"]) == ("finished", 40, None)
    assert shown["started"] == 1745383027.6719446
    assert shown["release"]["verdict"] == "released"
    assert shown["checkpoints"][0]["name"] == "step-00000040"
    losses = metrics_of(shown)["loss"]
    assert losses[:2] == (40, 0.354665816)
    assert losses[2:] == pytest.approx((0.00026894029, 0.00026894029), rel=1e-4)
    assert metrics_of(shown)["val_loss"] == (10, 0.580484301, *[pytest.approx(0.00027416466, rel=1e-4)] * 2)
    # What was measured before the pause is still there, at the times of then: it was not trained again.
    assert set(before) <= set(root.rows("paused"))


def test_attaching_to_a_lost_run_shows_the_end_of_its_log_and_the_remedy(root: Root) -> None:
    root.take("lost")
    (root.path / "lost" / "log.txt").write_text("".join(f"line {number}\n" for number in range(30)))
    head, *lines = root.call("attach", "lost", code=4).stderr.splitlines()
    assert head.endswith("none of its processes is left. The last lines of its log:")
    assert lines == [
        *(f"    line {number}" for number in range(25, 30)),
        f"All output of the run is in {root.path}/lost/log.txt.",
        "Resume it: trainyard resume lost",
    ]
    assert "  Resume it: trainyard resume lost" in root.call("show", "lost").stdout.splitlines()


@pytest.mark.slow
def test_a_lost_run_without_a_checkpoint_begins_anew(root: Root) -> None:
    """Comes to the same values; nothing of the first part is left in them."""
    root.take("lost")
    before = root.rows("lost")
    root.call("resume", "lost")
    shown = root.json("show", "lost")
    assert (shown["state"], shown["steps"], shown["error"]) == ("finished", 40, None)
    assert shown["started"] == 1745383036.2547047
    assert metrics_of(shown)["loss"] == pytest.approx((40, 0.354665816, 0.00026894029, 0.00026894029), rel=1e-4)
    assert set(before) & set(root.rows("lost")) == {"metric,step,time,value"}
