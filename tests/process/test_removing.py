"""`trainyard remove` deletes ended runs only, never active runs or the targets of links."""

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.history import removal
from core.runs.facts import RunState
from core.runs.run import Run
from core.system import processes
from tests.support.acting import ProcView
from tests.support.commands import Call
from tests.support.running import LONG, make_spec, start, write_recipe
from tests.support.waiting import wait_until
from tests.support.written_runs import BEGAN, write_run

DAY_S = 86_400


def over(runs_root: Path, name: str, *, days_ago: float = 0.0, kib: int = 100) -> Path:
    """Write a finished run with a checkpoint of this many KiB and return its folder."""
    ended = time.time() - days_ago * DAY_S - BEGAN
    states = [(ended - 4 + at, state) for at, state in enumerate(("starting", "running", "releasing", "finished"))]
    run_dir = write_run(runs_root, name, states=states)
    weights = run_dir / "checkpoints" / "00000001" / "weights"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(os.urandom(kib * 1024))
    return run_dir


def blocks(*paths: Path) -> int:
    """Return the disk usage of these paths in bytes, as counted by du(1)."""
    sizes = subprocess.run(["du", "-s", "-B1", *paths], capture_output=True, text=True, check=True).stdout
    return sum(int(line.split()[0]) for line in sizes.splitlines())


def test_remove_deletes_a_run_and_prints_the_freed_space(call: Call, runs_root: Path) -> None:
    gone, stays = over(runs_root, "20260101-a"), over(runs_root, "20260102-b")
    before = blocks(gone)
    assert removal.size_bytes(gone) == before
    code, out, err = call("remove", "20260101", "--yes")
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split() == ["20260101-a", "finished", str(-(-before // 1024)), "kB"]
    assert out.splitlines()[-1] == f"Removed 1 run and freed {-(-before // 1024)} kB of disk space."
    assert [each.name for each in runs_root.iterdir()] == [stays.name]


def test_remove_json_lists_several_removed_runs(call: Call, runs_root: Path) -> None:
    folders = [over(runs_root, name, kib=2048) for name in ("20260101-a", "20260102-b")]
    before = blocks(*folders)
    code, out, err = call("remove", "20260101-a", str(folders[1]), "20260101", "--yes", "--json")
    answer = json.loads(out)
    assert (code, err, answer["kept"], answer["freed_bytes"]) == (0, "", [], before)
    assert [(each["run"], each["dir"]) for each in answer["removed"]] == [(each.name, str(each)) for each in folders]
    assert list(runs_root.iterdir()) == []


def test_remove_refuses_an_active_run_and_removes_nothing(call: Call, runs_root: Path) -> None:
    old = over(runs_root, "20260101-a")
    followed = start(make_spec(write_recipe(runs_root.parent, LONG), epochs=1_000_000), runs_root)
    followed.until(RunState.RUNNING)
    name = followed.run.id
    code, out, err = call("remove", old.name, name, "--yes")
    assert (code, out) == (2, "")
    assert err == f"trainyard: Run {name} is running, so it was not removed. Stop it first: trainyard stop {name}\n"
    assert call("remove", "--older-than", "0", "--yes")[0] == 0  # an active run is never old
    assert [each.name for each in runs_root.iterdir()] == [name]
    followed.stop()
    wait_until(lambda: not removal.why_not(followed.run.dir), "that nothing is left of it")
    wait_until(lambda: call("remove", name, "--yes")[0] == 0, "that its supervisor has left")
    assert list(runs_root.iterdir()) == []


def test_locked_run_is_not_removed(call: Call, runs_root: Path) -> None:
    run_dir = over(runs_root, "20260101-a")
    code = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX); print(); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, run_dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        holder.stdout.readline()
        code, _, err = call("remove", run_dir.name, "--yes")
        assert code == 1
        assert err == (
            f"trainyard: Run {run_dir.name} is running, or its last processes are still being terminated. "
            "Try again in a moment.\n"
        )
        assert (run_dir / "checkpoints" / "00000001" / "weights").exists()
        holder.communicate(b"\n")
    assert call("remove", run_dir.name, "--yes")[0] == 0


def test_run_with_leftover_processes_is_kept_and_sweep_suggested(call, runs_root, tmp_path, monkeypatch) -> None:
    # Other programs must not have a run of this name: its processes are found by their tag alone. And the sweep sees
    # processes of this test only; otherwise it would terminate orphans of any run.
    view = ProcView(tmp_path / "proc", f"TESTS_OF_TRAINYARD={tmp_path}")
    monkeypatch.setattr("core.cli.commands.remove.PROC", view.path)
    run_dir = over(runs_root, f"20260101-leftover-{os.getpid()}")
    tags = {processes.TAG: run_dir.name, processes.RUN_DIR: str(run_dir)}
    with subprocess.Popen(["sleep", "3600"], env={**os.environ, **tags}, start_new_session=True) as left:
        wait_until(lambda: processes.tagged(run_dir.name), "its own image")
        code, _, err = call("remove", run_dir.name, "--yes")
        assert code == 2
        assert err == (
            f"trainyard: Run {run_dir.name} was not removed, since a process of it is still running: "
            f"pid {left.pid} (sleep). Terminate it first: trainyard sweep --end\n"
        )
        code, _, err = call("remove", "--older-than", "0", "--yes")  # reported; other runs would still be removed
        assert (code, f"pid {left.pid} (sleep)" in err, run_dir.exists()) == (1, True, True)
        view.refresh()
        assert call("sweep", "--end")[0] == 0
        left.wait()
    assert call("remove", run_dir.name, "--yes")[0] == 0


def test_link_in_the_runs_folder_is_not_followed(call: Call, runs_root: Path, tmp_path: Path) -> None:
    elsewhere = over(tmp_path / "other", "20260101-a")
    runs_root.mkdir()
    link = runs_root / "20260101-a"
    link.symlink_to(elsewhere)
    for name in ("20260101", str(link)):
        code, _, err = call("remove", name, "--yes")
        assert (code, err.startswith(f"trainyard: {link} is a link, and links are not followed.")) == (2, True)
    assert call("remove", "--older-than", "0", "--yes")[:2] == (0, "There is nothing to remove.\n")
    assert (elsewhere / "log.txt").exists()


def test_link_inside_a_run_is_removed_and_its_target_kept(call: Call, runs_root: Path, tmp_path: Path) -> None:
    run_dir = over(runs_root, "20260101-a")
    data = tmp_path / "data"
    data.mkdir()
    (data / "mine").write_text("precious")
    (run_dir / "checkpoints" / "data").symlink_to(data)
    (run_dir / "mine").symlink_to(data / "mine")
    assert call("remove", run_dir.name, "--yes")[0] == 0
    assert not run_dir.exists()
    assert (data / "mine").read_text() == "precious"


@pytest.mark.parametrize("made", ["setup", "nothing", "links"])
def test_folder_that_is_not_a_run_is_not_removed(call: Call, runs_root: Path, tmp_path: Path, made: str) -> None:
    run_dir, folder = over(runs_root, "20260101-a"), tmp_path / "project"
    folder.mkdir()
    (folder / "mine.py").write_text("")
    if made == "setup":  # a saved setup that has the name of a run's file
        (folder / "spec.json").write_bytes((run_dir / "spec.json").read_bytes())
    elif made == "links":
        (folder / "spec.json").symlink_to(run_dir / "spec.json")
        (folder / "events").symlink_to(run_dir / "events")
    code, _, err = call("remove", str(folder), "--yes")
    assert code == 2
    assert ("There is no run" if made != "setup" else "is not the folder of a run, so it was not removed") in err
    assert (folder / "mine.py").exists()


def test_folder_that_cannot_be_removed_is_reported_and_the_rest_removed(call: Call, runs_root: Path) -> None:
    stuck, gone = over(runs_root, "20260102-stuck"), over(runs_root, "20260101-gone")
    mounted = stuck / "checkpoints" / "disk"
    mounted.mkdir()
    asked = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mounted]
    if subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip("what cannot be removed needs the right to mount something")
    try:
        (mounted / "mine").write_text("on another disk")
        code, out, err = call("remove", "--older-than", "0", "--yes")
        assert code == 1
        assert err == (
            f"trainyard: Not all of run {stuck.name} could be removed. {mounted} cannot be removed: Device or resource "
            "busy. Change that, then remove it again.\n"
        )
        assert "Removed 1 run and freed " in out
        assert not gone.exists()
        assert (mounted / "mine").read_text() == "on another disk"
        assert not (stuck / "log.txt").exists()
        assert Run.attach(stuck).catch_up()  # it is still a run
    finally:
        # A program that looks at all disks may be in it.
        wait_until(lambda: subprocess.run(["umount", mounted], check=False).returncode == 0, "the disk to be unmounted")
    assert call("remove", stuck.name, "--yes", "--json")[0] == 0
    assert list(runs_root.iterdir()) == []


def test_older_than_selects_runs_by_their_end_time(call: Call, runs_root: Path) -> None:
    for name, days_ago in (("20260103-new", 1), ("20260102-older", 8), ("20260101-oldest", 30)):
        over(runs_root, name, days_ago=days_ago)
    code, out, _ = call("remove", "--older-than", "7.5", "--yes")
    assert (code, "Removed 2 runs and freed " in out) == (0, True)
    assert [each.name for each in runs_root.iterdir()] == ["20260103-new"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "No run is named."),
        (("20260101-a", "--older-than", "3"), "Both runs and --older-than are given."),
        (("--older-than", "-1"), "--older-than -1 is not a number of days."),
        (("--older-than", "nan"), "--older-than nan is not a number of days."),
        (("20260101-a",), "Nothing was removed: there is no terminal to confirm on. Add --yes"),
        (("20260101-a", "--json"), "Nothing was removed: there is no terminal to confirm on. Add --yes"),
        (("2025", "--yes"), "There is no run '2025'"),
    ],
)
def test_wrong_arguments_print_an_error_and_remove_nothing(call, runs_root, arguments, words) -> None:
    run_dir = over(runs_root, "20260101-a", days_ago=9)
    code, _, err = call("remove", *arguments)
    assert (code, err.startswith(f"trainyard: {words}")) == (2, True)
    assert (run_dir / "log.txt").exists()


@pytest.mark.parametrize(("answer", "goes"), [("y\n", True), ("\n", False), ("n\n", False), ("", False)])
def test_remove_asks_for_confirmation_on_a_terminal(call, runs_root, monkeypatch, answer, goes) -> None:
    run_dir = over(runs_root, "20260101-a")
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, _ = call("remove", run_dir.name)
    assert (code, run_dir.exists()) == (0, not goes)
    assert "Remove this run? This cannot be undone. [y/N] " in out
