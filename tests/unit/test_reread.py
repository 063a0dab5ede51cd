"""Read the curves of a finished script's run again: values, times, kept curves, and a full disk."""

import errno
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from core.cli import __main__
from core.metrics.reread import reread
from core.schema.event_log import Log
from core.schema.files import write_whole
from core.system import procfs
from core.system.processes import TAG
from tests.support.running import folded, make_spec, script_spec
from tests.support.waiting import wait_until
from tests.support.written_runs import BEGAN, write_run

LOG = "".join(f"step {step}: loss {step / 8:.3f}, accuracy {100 - step}%\n" for step in range(1, 11))


def batch(t: float, first: int, name: str, *values: float, since: float | None = None) -> dict[str, Any]:
    return {"t": t, "kind": "metrics", "since": since or t, "first": first, "values": {name: values}}


def written(folder: Path, *events: dict[str, Any], state: str = "finished", recipe: bool = False) -> Path:
    """Write a script's run that began at `BEGAN` and trained for 100 s."""
    (folder / "train.py").write_text("print('unused')\n")
    spec = make_spec("digits_mlp") if recipe else script_spec("train.py", cwd=folder)
    states = [(0.0, "starting"), (1.0, "running"), (101.0, "releasing"), (102.0, state)]
    run_dir = write_run(
        folder / "runs", "20250615-150000-train-0001", events, spec=spec, file="collector",
        states=states[:2] if state == "running" else states,
        more=[{"t": BEGAN - 0.1, "kind": "supervisor", "pid": os.getpid(), "created": 1.0}],
    )
    (run_dir / "log.txt").write_text(LOG)
    return run_dir


def curve(run_dir: Path, name: str) -> list[tuple[int, float, float]]:
    """Return step, value and seconds since the run's start."""
    run_series = folded(*Log(run_dir).read())
    series = run_series.metrics[name]
    times = [round(time - BEGAN, 3) for time in series.times]
    return list(zip(map(int, series.steps), series.values.tolist(), map(float, times), strict=True))


def test_values_are_read_anew_and_known_times_stay(tmp_path: Path) -> None:
    run_dir = written(
        tmp_path,
        batch(BEGAN + 41, 1, "loss", 0.125, 0.25, 0.375, 0.5, since=BEGAN + 11),
        batch(BEGAN + 55, 5, "loss", 9.9),  # misread: the step has a time, but not this value
        batch(BEGAN + 90, 7, "val_loss", 0.875),  # never printed as a validation
        {"t": BEGAN + 95, "kind": "progress", "done": 7, "total": 9, "unit": "epochs"},
    )
    result = reread(run_dir)
    assert (result.before, result.after) == ({"loss": 5, "val_loss": 1}, {"accuracy": 10, "loss": 10})
    assert [(step, value) for step, value, _ in curve(run_dir, "loss")] == [(n, n / 8) for n in range(1, 11)]
    times = [time for _, _, time in curve(run_dir, "loss")]
    assert times == pytest.approx([11, 21, 31, 41, 55, 72.5, 90, 92.75, 95.5, 98.25], abs=0.6)
    assert asdict(result.times) == {"recorded": 6, "sources": 0, "interpolated": 4, "spread": 0}
    assert reread(run_dir).after == result.after, "a second time changes nothing"


def test_notes_on_the_growth_of_the_log_give_times(tmp_path: Path) -> None:
    half = len("".join(LOG.splitlines(keepends=True)[:5]))
    notes = [
        {"t": BEGAN + 11, "kind": "log_read", "rank": 0, "bytes": half},
        {"t": BEGAN + 91, "kind": "log_read", "rank": 0, "bytes": len(LOG)},
    ]
    run_dir = written(tmp_path, *notes)
    result = reread(run_dir)
    assert [time for _, _, time in curve(run_dir, "loss")] == [3, 5, 7, 9, 11, 27, 43, 59, 75, 91]
    assert asdict(result.times) == {"recorded": 0, "sources": 10, "interpolated": 0, "spread": 0}
    assert '"log_read"' in (run_dir / "events" / "collector.jsonl").read_text(), "another reading needs the notes, too"


def test_a_curve_of_a_file_that_is_gone_stays(tmp_path: Path) -> None:
    """If no file is noted, what was never printed came from a file."""
    run_dir = written(tmp_path, batch(BEGAN + 50, 1, "score", 0.5111, 0.6222), batch(BEGAN + 60, 1, "lr", 0.25))
    result = reread(run_dir)
    assert result.kept == ("score",), "0.25 is in the log, and is a loss there"
    assert [value for _, value, _ in curve(run_dir, "score")] == [0.5111, 0.6222]
    assert "lr" not in result.after


def test_noted_files_are_read_from_where_the_run_began(tmp_path: Path) -> None:
    table = tmp_path / "log.csv"
    table.write_text("step,reward\n1,0.5\n2,0.77\n3,1.55\n")
    os.utime(table, (BEGAN + 50, BEGAN + 50))
    begin = len("step,reward\n1,0.5\n")
    notes = [
        {"t": BEGAN + 2, "kind": "metric_file", "path": str(table), "begin": begin},
        {"t": BEGAN + 91, "kind": "log_read", "rank": 0, "bytes": len(LOG)},
    ]
    run_dir = written(tmp_path, *notes, batch(BEGAN + 40, 2, "reward", 0.77))
    assert reread(run_dir).after["reward"] == 2
    table.write_text("step,reward\n1,0.1\n")
    result = reread(run_dir)
    assert (result.kept, result.after["reward"]) == (("reward",), 2)
    assert result.troubles == (f"{table} was changed after the run, so its curves stay as they were recorded.",)


def test_file_that_another_run_may_have_written_is_read_when_that_run_is_over(tmp_path: Path) -> None:
    table = tmp_path / "log.csv"
    table.write_text("step,reward\n1,0.5\n2,0.77\n")
    os.utime(table, (BEGAN + 50, BEGAN + 50))
    run_dir = written(tmp_path, {"t": BEGAN + 102, "kind": "metric_file", "path": str(table), "begin": 0,
                                 "other_run": "run-2"})
    with subprocess.Popen([sys.executable, "-c", "input()"], env={TAG: "run-2"}, stdin=subprocess.PIPE) as other:
        wait_until(lambda: procfs.variable(procfs.variables(other.pid), TAG) == "run-2", "the process to begin")
        result = reread(run_dir)
        other.communicate(b"\n")
    assert "reward" not in result.after
    assert result.troubles == (f"{table} is not read yet, since run run-2 may have written it and is not over.",)
    assert reread(run_dir).after["reward"] == 2


def test_a_full_disk_leaves_the_old_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = written(tmp_path, batch(BEGAN + 50, 1, "loss", 0.125))
    before = (run_dir / "events" / "collector.jsonl").read_bytes()

    def full(path: Path, text: str) -> None:
        write_whole(path.with_suffix(".unused"), text)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("core.metrics.reread.write_whole", full)
    assert __main__.main(["reread", str(run_dir)]) == __main__.WRONG_USE
    assert (run_dir / "events" / "collector.jsonl").read_bytes() == before


def test_command_says_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = written(tmp_path, batch(BEGAN + 50, 1, "val_loss", 0.125))
    assert __main__.main(["reread", str(run_dir)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "METRIC    BEFORE  AFTER",
        "accuracy  0       10",
        "loss      0       10",
        "val_loss  1       0",
        "The times of 9 rows of values are not recorded; they were placed between their neighbours.",
    ]
    assert __main__.main(["reread", str(run_dir), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["metrics"] == {"accuracy": {"before": 10, "after": 10}, "loss": {"before": 10, "after": 10}}
    assert document["times"]["recorded"] == 10


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"recipe": True}, "trains a recipe, which reports its measurements itself: there is nothing to read again."),
        ({"state": "running"}, "is not over. Its curves can be read again when it has ended."),
    ],
)
def test_runs_that_cannot_be_read_anew(tmp_path, capsys, given, sentence, monkeypatch) -> None:
    monkeypatch.setattr("core.runs.run.processes.is_alive", lambda _: True)
    run_dir = written(tmp_path, **given)
    assert __main__.main(["reread", str(run_dir)]) == 2
    assert capsys.readouterr().err == f"trainyard: Run {run_dir.name} {sentence}\n"
