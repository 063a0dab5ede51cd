"""Curves of other programs as runs: what is read, what belongs together, and what an imported run refuses."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from core.metrics.files.tensorboard_writer import ScalarCurve, event_file
from core.runs.run import Run
from core.series.report import read_series
from tests.support.commands import call
from tests.support.recorded_events import KERAS, PYTORCH, scalar_record
from tests.support.written_runs import BEGAN, values, write_run

EVENTS = "events.out.tfevents.1700000000.host.1.0"
TABLE = b"epoch,loss,val_loss\n0,1.0,0.9\n1,nan,0.45\n2,0.25,\n"


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def curve(tag: str, *numbers: float) -> bytes:
    return b"".join(scalar_record(tag, value, step, BEGAN + step) for step, value in enumerate(numbers))


@pytest.fixture
def imported(tmp_path: Path, capsys):
    """Return a function that imports a path: the documents by name of the run, and what was said beside it."""

    def run_it(path: Path) -> tuple[dict[str, Run], str]:
        code, out, err = call(capsys, "import", "--runs", tmp_path / "runs", path, "--json")
        assert code == 0, err
        runs = [Run.attach(tmp_path / "runs" / each["run"]) for each in json.loads(out)]
        return {run.spec().name: run for run in runs}, err

    return run_it


def test_each_training_of_a_tensorboard_folder_is_a_run(tmp_path: Path, imported) -> None:
    logs = tmp_path / "logs"
    put(logs / "keras" / "train" / EVENTS, curve("epoch_loss", 1.0, 0.5, 0.25))
    put(logs / "keras" / "validation" / EVENTS, KERAS)
    put(logs / "torch" / EVENTS, PYTORCH)
    put(logs / "torch" / "reward_best" / EVENTS, curve("reward", 1.0, 2.0))
    put(logs / "torch" / "next" / EVENTS, curve("loss", 7.0, 6.0))
    before = {path: path.read_bytes() for path in logs.rglob("events*")}
    runs, err = imported(logs)
    assert (set(runs), err) == ({"keras", "torch", "torch-next"}, "")
    keras, torch, following = (read_series(runs[name]).metrics for name in ("keras", "torch", "torch-next"))
    assert set(keras) == {"loss", "val_loss", "val_accuracy"}
    assert keras["loss"].values.tolist() == [1.0, 0.5, 0.25]
    assert (torch["loss"].steps.tolist(), torch["loss"].values[:2].tolist()) == ([0.0, 1.0, 2.0], [1.0, 0.5])
    assert torch["best_reward"].values.tolist() == [1.0, 2.0], "of a folder of `add_scalars`"
    assert following["loss"].values.tolist() == [7.0, 6.0]
    assert following["loss"].times.tolist() == [BEGAN, BEGAN + 1]
    assert {path: path.read_bytes() for path in logs.rglob("*") if path.is_file()} == before


def test_tables_and_json_lines_are_runs_and_data_is_not(tmp_path: Path, imported) -> None:
    logs = tmp_path / "logs"
    table = put(logs / "a" / "metrics.csv", TABLE)
    os.utime(table, (BEGAN, BEGAN))
    put(logs / "a" / "data.csv", b"age,height\n1,2\n3,4\n")
    put(logs / "b.jsonl", b'{"step": 5, "loss": 0.5}\n{"step": 6, "loss": 0.25}\n{"step": 7, "lo')
    put(logs / "c" / EVENTS, curve("loss", 1.0))
    put(logs / "c" / "metrics.csv", TABLE)
    runs, err = imported(logs)
    assert set(runs) == {"a-metrics", "b", "c"}
    assert "c/metrics.csv was left out, since the event files beside it have the curves." in err
    series = read_series(runs["a-metrics"])
    assert str(series.metrics["loss"].values.tolist()) == str([1.0, math.nan, 0.25])
    assert series.metrics["val_loss"].values.tolist() == [0.9, 0.45]
    assert set(series.metrics["loss"].times.tolist()) == {BEGAN}, "the table has no times"
    assert "loss" in series.by_epoch
    assert read_series(runs["b"]).metrics["loss"].steps.tolist() == [5.0, 6.0]
    alone, _ = imported(logs / "c" / "metrics.csv")
    assert set(read_series(alone["metrics"]).metrics) == {"loss", "val_loss"}
    put(logs / "c" / EVENTS, b"loss,accuracy\n1,2\n" * 20)
    runs, err = imported(logs / "c")
    assert (set(runs), "c has no curve that can be read" in err, "left out" in err) == ({"metrics"}, True, False)


def test_imported_runs_are_compared_shown_and_exported(tmp_path: Path, imported, capsys) -> None:
    own = write_run(tmp_path / "runs", "own", [values(1, 1.0, 3.0, loss=[1.0, 0.5, 0.3])])
    runs, _ = imported(put(tmp_path / "logs" / EVENTS, curve("loss", 0.5, 0.25)))
    run = runs["logs"]
    code, out, _ = call(capsys, "compare", own, run.dir, "--json")
    theirs = json.loads(out)["rows"][1]
    assert (code, theirs["last"], theirs["differs"]["imported"]) == (0, 0.25, str(tmp_path / "logs" / EVENTS))
    assert f"imported from {tmp_path / 'logs' / EVENTS}" in call(capsys, "show", run.dir)[1]
    assert call(capsys, "report", own, run.dir, "--output", tmp_path / "r.html")[0] == 0
    assert "Imported from" in (tmp_path / "r.html").read_text()
    assert call(capsys, "export", run.dir, "--tensorboard", tmp_path / "tb")[0] == 0
    again, _ = imported(tmp_path / "tb")
    assert read_series(again["tb"]).metrics["loss"].times.tolist() == [BEGAN, BEGAN + 1], "there and back"


def test_an_imported_run_is_never_started(tmp_path: Path, imported, capsys) -> None:
    runs, _ = imported(put(tmp_path / "logs" / "metrics.csv", TABLE))
    run_dir = runs["metrics"].dir
    before = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    for command, *words in (("again",), ("resume",), ("command",), ("keep", str(tmp_path / "p.json"))):
        code, out, err = call(capsys, command, run_dir, *words)
        assert (code, out) == (2, "")
        assert err.startswith(f"trainyard: Run metrics was imported from {tmp_path}/logs/metrics.csv: ")
    code, _, err = call(capsys, "run", "--setup", run_dir / "spec.json")
    assert (code, "was imported from" in err) == (2, True)
    code, _, err = call(capsys, "reread", run_dir)
    assert (code, "To read its files again, import them again: trainyard import " in err) == (2, True)
    assert {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()} == before
    assert not (tmp_path / "p.json").exists()


def test_of_a_half_written_or_damaged_file_what_is_whole_is_read(tmp_path: Path, imported) -> None:
    data = curve("loss", *range(10))
    size = len(data) // 10
    runs, err = imported(put(tmp_path / "half" / EVENTS, data[:-3]).parent)
    assert (read_series(runs["half"]).metrics["loss"].values.tolist(), err) == ([*map(float, range(9))], "")
    broken = data[: 3 * size + 20] + b"\xff" + data[3 * size + 21 :]
    runs, err = imported(put(tmp_path / "broken" / EVENTS, broken).parent)
    run = runs["broken"]
    assert read_series(run).metrics["loss"].steps.tolist() == [0.0, 1.0, 2.0, *map(float, range(4, 10))]
    assert "has damaged records. They are skipped" in err
    assert [text for text in run.facts.notices if "has damaged records" in text], "the run says so, too"
    _, err = imported(put(tmp_path / "cut" / "loss.csv", TABLE[:-2]))
    assert "does not end with a new line: its last row may be cut." in err


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("loss.csv", b"\x89PNG\r\n\x1a\n" * 20, "loss.csv has no curve that can be read"),
        ("loss.jsonl", b"loss,accuracy\n1,2\n", "loss.jsonl has no curve that can be read"),
        (EVENTS, b"loss,accuracy\n1,2\n" * 20, "has no curve that can be read"),
        (EVENTS, b"", "has no curve that can be read"),
        ("notes.txt", b"hello", "notes.txt has no curve that can be read"),
        ("data/data.csv", b"age,height\n1,2\n", "has no TensorBoard event file"),
        ("nothing", None, "There is no file or folder"),
    ],
)
def test_a_path_without_curves_is_one_sentence(tmp_path, capsys, name, data, sentence) -> None:
    path = tmp_path / name if data is None else put(tmp_path / name, data)
    path = path.parent if name.startswith("data/") else path
    code, out, err = call(capsys, "import", "--runs", tmp_path / "runs", path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert not (tmp_path / "runs").exists()


def test_a_full_disk_leaves_no_run(small_disk: Path, tmp_path: Path, capsys) -> None:
    numbers = np.arange(5_000.0)
    long = ScalarCurve(tag="loss", steps=numbers, times=BEGAN + numbers, values=numbers)
    path = put(tmp_path / EVENTS, b"".join(event_file([long], BEGAN)))
    free = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(bytes(free.f_bavail * free.f_frsize - 24_000))
    code, _, err = call(capsys, "import", "--runs", small_disk / "runs", path)
    assert (code, err.startswith("trainyard: The disk is full: ")) == (2, True)
    assert not list((small_disk / "runs").iterdir())
