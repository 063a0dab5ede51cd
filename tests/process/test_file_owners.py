"""Which run writes a file, where several write into one folder."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.metrics.collector import FileOwners
from core.runs.facts import RunState
from core.system.processes import TAG
from tests.support.running import script_spec, start
from tests.support.waiting import wait_until

HOLD_SOURCE = (
    "import sys; file = open(sys.argv[1], 'a') if len(sys.argv) > 1 else None; print('.', flush=True); sys.stdin.read()"
)
LOGS = """\
import csv, sys, time
from pathlib import Path

name, first = sys.argv[1], float(sys.argv[2])
with open(f"{name}.csv", "w", newline="") as file:
    log = csv.writer(file)
    log.writerow(["step", "loss"])
    for step in range(1, 41):
        log.writerow([step, first + step])
        file.flush()
        Path(f"{name}.begun").touch()
        while not all(Path(f"{each}.begun").exists() for each in ("one", "two")):
            time.sleep(0.01)
    while not Path("read").exists():  # a run has the files that its processes have open
        time.sleep(0.01)
"""


@pytest.fixture
def start_process() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a process of a run in a folder; returns once the process has opened the given files."""
    started: list[subprocess.Popen[bytes]] = []

    def start_one(run_id: str, folder: Path, *opened: Path, program: Path | None = None) -> subprocess.Popen[bytes]:
        started.append(
            subprocess.Popen(
                [sys.executable, *([program] if program else ["-c", HOLD_SOURCE]), *map(str, opened)], cwd=folder,
                env={TAG: run_id},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )
        )
        started[-1].stdout.read(1)
        return started[-1]

    yield start_one
    for each in started:
        each.communicate()


def test_file_belongs_to_run_that_has_it_open(tmp_path, start_process) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    ours, theirs, unopened, far = (here / name for name in ("ours.csv", "theirs.csv", "unopened.csv", "far.csv"))
    for path in (ours, theirs, unopened, far):
        path.touch()

    def ownership() -> list[bool]:
        writers = FileOwners("run-1", here)
        return [writers.is_ours(str(path), path.stat()) for path in (ours, theirs, unopened, far)]

    start_process("run-1", here, ours)
    assert ownership() == [True, True, True, True], "no other run is active"
    start_process("run-2", elsewhere, far)
    assert ownership() == [True, True, True, False], "another run has far.csv open"
    start_process("run-3", here, theirs)
    assert ownership() == [True, False, False, False], "another run works in the same folder"


def test_file_belongs_to_the_run_in_the_nearest_folder(tmp_path, start_process) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    files = [tmp_path / "outer" / "outer.csv", inner / "inner.csv"]
    for path in files:
        path.touch()

    def ownership(folder: Path) -> tuple[list[bool], dict[str, str]]:
        owners = FileOwners("run-1", folder)
        return [owners.is_ours(str(path), path.stat()) for path in files], owners.refused

    start_process("run-2", Path("/"))
    boot = tmp_path / "core" / "worker" / "boot.py"
    boot.parent.mkdir(parents=True)
    boot.write_text(HOLD_SOURCE)
    start_process("run-2", inner, program=boot)
    assert ownership(inner) == ([True, True], {}), "the worker of a recipe"
    start_process("run-3", tmp_path / "outer")
    assert ownership(inner) == ([False, True], {str(files[0]): "run-3"})
    start_process("run-4", inner)
    assert ownership(tmp_path / "outer") == ([False, False], {str(files[0]): "run-3", str(files[1]): "run-4"})


def test_folder_of_a_log_that_a_process_of_the_run_has_open_is_told(tmp_path, start_process) -> None:
    log, other = tmp_path / "disk" / "events.out.tfevents.1", tmp_path / "else" / "data.bin"
    for path in (log, other):
        path.parent.mkdir()
    start_process("run-1", tmp_path, log)
    start_process("run-1", tmp_path, other)
    owners = FileOwners("run-1", tmp_path / "work", clock=lambda: 0.0)
    assert owners.open_folders() == {log.parent}
    assert owners.open_folders() == set(), "not again at once"


def test_run_that_has_just_started_has_its_file(tmp_path, start_process) -> None:
    """The processes of all runs were listed before it started; the clock stands still, so the list stays valid."""
    owners = FileOwners("run-1", tmp_path, clock=lambda: 0.0)
    ours, theirs = tmp_path / "ours.csv", tmp_path / "theirs.csv"
    start_process("run-1", tmp_path, ours)
    assert owners.is_ours(str(ours), ours.stat())
    start_process("run-2", tmp_path, theirs)
    assert not owners.is_ours(str(theirs), theirs.stat())
    assert owners.is_ours(str(ours), ours.stat())


@pytest.mark.slow
def test_two_runs_in_one_folder_record_separate_losses(tmp_path: Path, runs_root: Path) -> None:
    (tmp_path / "logs.py").write_text(LOGS)
    first = {"one": 1000.0, "two": 2000.0}

    runs = {
        name: start(script_spec(tmp_path / "logs.py", name, str(at), cwd=tmp_path, devices=device), runs_root)
        for (name, at), device in zip(first.items(), ("cpu:0", "cpu:1"), strict=True)
    }

    for run in runs.values():
        wait_until(lambda run=run: "loss" in run.poll().run_series.metrics and len(run.losses()) >= 40, "all losses")  # type: ignore[misc]
    (tmp_path / "read").touch()
    for name, run in runs.items():
        assert run.until_over().state is RunState.FINISHED
        assert run.losses() == [first[name] + step for step in range(1, 41)], name
