"""Run: the facts that are read from the files of a run."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from core.errors import RunError
from core.runs.directory import new_directory
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.events import Event
from core.schema.spec import write_spec
from core.system import processes
from core.system.processes import ProcessId
from tests.support.recorded import recorded
from tests.support.running import make_spec

DEAD_PROCESS = {"pid": 2**22 + 1, "created": 0.0}


def test_lines_written_after_a_file_was_read_are_read_with_the_final_state(runs_root, monkeypatch) -> None:
    """Files are read in sequence, and the supervisor may finish the run between two of them."""
    run = Run(recorded(runs_root))
    devices = run.dir / "events" / "devices.jsonl"
    lines = devices.read_text().splitlines(keepends=True)
    devices.write_text("".join(lines[:-2]))
    read = run._log.read

    def read_then_append() -> list[Event]:
        events = read()
        devices.write_text("".join(lines))
        return events

    monkeypatch.setattr(run._log, "read", read_then_append)
    events = run.poll()
    assert run.facts.state is RunState.FINISHED
    samples = [event for event in events if event["kind"] == "sample"]
    assert [sample["t"] for sample in samples] == [json.loads(line)["t"] for line in lines]
    assert run.poll() == []


@pytest.fixture
def lost_run(runs_root: Path) -> Path:
    """A run whose supervisor exited unexpectedly."""
    run_dir = runs_root / "lost"
    (run_dir / "events").mkdir(parents=True)
    (run_dir / "control").mkdir()
    write_spec(run_dir, make_spec("digits_mlp"))
    here = {name: getattr(processes.here(), name) for name in ("host", "boot", "pid_namespace")}
    write(run_dir, {"t": 1.0, "kind": "supervisor", **DEAD_PROCESS, **here})
    return run_dir


def write(run_dir: Path, event: dict[str, Any], name: str = "supervisor.jsonl") -> None:
    with (run_dir / "events" / name).open("a") as file:
        file.write(json.dumps(event) + "\n")


def read(run_dir: Path, **options: Any) -> Run:
    run = Run(run_dir, **options)
    run.catch_up()
    return run


def test_lost_run_names_its_remaining_processes(lost_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(processes, "tagged")  # which a list of runs does not call
    listed = read(lost_run, only=("supervisor.jsonl",))
    assert listed.facts.state is RunState.LOST
    assert "exited unexpectedly. The log is empty." in str(listed.facts.error)
    left = [ProcessId(pid=4711, created=1.0)]
    monkeypatch.setattr(processes, "tagged", lambda _: left, raising=False)
    run = read(lost_run)
    assert (
        "processes of it were still running (pid 4711), and `trainyard sweep` terminates those that are left."
        in str(run.facts.error)
    )
    left.clear()
    ended = [{"pid": 4711, "created": 1.0, "name": "python", "command": None, "signal": "SIGKILL"}]
    write(lost_run, {"t": 2.0, "kind": "ended", "by": "guard", "processes": ended}, "guard.jsonl")
    run.poll()  # the earlier error is replaced
    assert "exited unexpectedly; none of its processes is left." in str(run.facts.error)
    assert str(read(lost_run).facts.error) == str(run.facts.error)


def test_lost_run_no_longer_stalls_and_no_device_of_it_is_slowed_down(lost_run: Path) -> None:
    for event in (
        {"t": 2.0, "kind": "state", "state": "starting"},
        {"t": 3.0, "kind": "device", "id": "GPU-1", "label": "GPU 1"},
        {"t": 4.0, "kind": "state", "state": "running"},
        {"t": 5.0, "kind": "stall", "text": "No step has been reported, but all processes are running."},
        {"t": 6.0, "kind": "slowed", "device": "GPU-1", "text": "GPU 1 is slowed down: 90 °C."},
        {"t": 7.0, "kind": "request", "asked": "pause"},
    ):
        write(lost_run, event)
    facts = read(lost_run).facts
    assert facts.state is RunState.LOST
    assert (facts.stalled, facts.slowed, facts.asked, facts.phase) == (None, {}, "", None)


@pytest.mark.parametrize(
    ("text", "most", "end"),
    [
        ("one\ntwo\nthree\n", 10, "two\nthree\n"),
        ("one\ntwo\nthree\n", 9, "three\n"),
        ("one\ntwo\nthree\n", 6, "three\n"),
        ("one\ntwo\nthree\n", 99, "one\ntwo\nthree\n"),
        ("a very long line", 4, "line"),
        ("a very long line\n", 5, "line\n"),
    ],
)
def test_log_end_starts_at_a_line(lost_run: Path, text: str, most: int, end: str) -> None:
    (lost_run / "log.txt").write_text(text)
    assert Run(lost_run).log_end(most) == end


def test_unreadable_event_file_is_reported_once(lost_run: Path) -> None:
    (lost_run / "events" / "worker-0.jsonl").mkdir()  # a folder cannot be read as a file, not even by root
    run = read(lost_run)
    notice = f"{lost_run}/events/worker-0.jsonl cannot be read: Is a directory. Its events are missing here."
    assert run.facts.notices == (notice,)
    write(lost_run, {"t": 2.0, "kind": "notice", "text": "more"})
    run.catch_up()
    assert run.facts.notices == (notice, "more")


def test_run_that_is_damaged_is_not_resumed(lost_run: Path) -> None:
    supervisor = lost_run / "events" / "supervisor.jsonl"
    supervisor.write_bytes(b"\xff\n")
    with pytest.raises(ValueError, match="has not started"):
        Run.resume(lost_run)
    os.utime(lost_run / "spec.json", (0, 0))
    supervisor.unlink()
    supervisor.mkdir()
    assert "not known, since its events cannot be read" in str(read(lost_run).facts.error), "its log is not missing"
    supervisor.rmdir()
    (lost_run / "events").rmdir()
    with pytest.raises(RunError, match=r"is damaged: .*events is missing"):
        Run.resume(lost_run)
    (lost_run / "spec.json").write_text("[]")
    with pytest.raises(ValueError, match=r"spec\.json is not a valid spec\. It is not a JSON object"):
        Run.resume(lost_run)


def test_run_without_control_folder_cannot_receive_requests(lost_run: Path) -> None:
    (lost_run / "control").rmdir()
    with pytest.raises(RunError, match=r"Run lost cannot receive requests, since .*control is not there\. Make"):
        Run(lost_run).request("stop")


def test_runs_root_that_cannot_be_created_is_reported_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for root, words in (
        (tmp_path / "file", r"file cannot be a folder of runs, since .*file is a file\. Keep runs elsewhere"),
        (tmp_path / "file" / "runs", r"since .*/file is a file\. Keep runs elsewhere"),
        (Path("/proc/x"), r"^/proc/x could not be created in /proc: .*\. Keep runs elsewhere with --runs DIR\.$"),
    ):
        with pytest.raises(RunError, match=words):
            Run.start(make_spec("digits_mlp"), root)


def test_runs_of_one_second_that_draw_the_same_digits_get_different_folders(tmp_path, monkeypatch) -> None:
    drawn = iter([b"\0\1", b"\0\1", b"\0\2"])
    monkeypatch.setattr("core.runs.directory.os.urandom", lambda _: next(drawn))
    monkeypatch.setattr("core.runs.directory.time.strftime", lambda _: "20260101-120000")
    names = [new_directory(tmp_path, "a").name for _ in range(2)]
    assert names == ["20260101-120000-a-0001", "20260101-120000-a-0002"]
