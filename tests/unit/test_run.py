"""What a reader of a run makes of its files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from core.errors import RunError
from core.runs.run import Run
from core.runs.states import RunState
from core.schema.spec import write_spec
from core.system import processes
from core.system.processes import ProcessId
from tests.support.recorded import recorded
from tests.support.running import make_spec

if TYPE_CHECKING:
    from core.schema.events import Event

NOBODY = {"pid": 2**22 + 1, "created": 0.0}


def test_the_last_lines_of_a_file_that_was_read_before_the_last_word_are_read_too(
    runs_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are read one after the other: the supervisor may end the run between two of them."""
    run = Run(recorded(runs_root))
    devices = run.dir / "events" / "devices.jsonl"
    lines = devices.read_text().splitlines(keepends=True)
    devices.write_text("".join(lines[:-2]))
    read = run._log.read

    def reads_and_is_overtaken() -> list[Event]:
        events = read()
        devices.write_text("".join(lines))
        return events

    monkeypatch.setattr(run._log, "read", reads_and_is_overtaken)
    events = run.poll()
    assert run.facts.state is RunState.FINISHED
    samples = [event for event in events if event["kind"] == "sample"]
    assert [sample["t"] for sample in samples] == [json.loads(line)["t"] for line in lines]
    assert run.poll() == []


@pytest.fixture
def lost(runs_root: Path) -> Path:
    """A run whose supervisor is gone without a word."""
    run_dir = runs_root / "lost"
    (run_dir / "events").mkdir(parents=True)
    (run_dir / "control").mkdir()
    write_spec(run_dir, make_spec("digits_mlp"))
    here = {name: getattr(processes.here(), name) for name in ("host", "boot", "pid_namespace")}
    write(run_dir, {"t": 1.0, "kind": "supervisor", **NOBODY, **here})
    return run_dir


def write(run_dir: Path, event: dict[str, Any], name: str = "supervisor.jsonl") -> None:
    with (run_dir / "events" / name).open("a") as file:
        file.write(json.dumps(event) + "\n")


def read(run_dir: Path, **how: Any) -> Run:
    run = Run(run_dir, **how)
    run.catch_up()
    return run


def test_of_a_lost_run_it_is_looked_what_is_left(lost: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = [ProcessId(pid=4711, created=1.0)]
    monkeypatch.setattr(processes, "tagged", lambda _: left)
    run = read(lost)
    assert "these of its processes were still there: pid 4711. `trainyard sweep` ends those that stay." in str(
        run.facts.error
    )
    left.clear()
    ended = [{"pid": 4711, "created": 1.0, "name": "python", "command": None, "signal": "SIGKILL"}]
    write(lost, {"t": 2.0, "kind": "ended", "by": "guard", "processes": ended}, "guard.jsonl")
    run.poll()  # who had said so before says what is so now
    assert "exited unexpectedly; none of its processes is left." in str(run.facts.error)
    assert str(read(lost).facts.error) == str(run.facts.error)


def test_who_only_lists_runs_does_not_look_for_processes(lost: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: str) -> list[ProcessId]:
        raise AssertionError

    monkeypatch.setattr(processes, "tagged", never)
    run = read(lost, only=("supervisor.jsonl",))
    assert run.facts.state is RunState.LOST
    assert "exited unexpectedly. The log is empty." in str(run.facts.error)


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
def test_the_end_of_a_log_begins_with_a_line(lost: Path, text: str, most: int, end: str) -> None:
    (lost / "log.txt").write_text(text)
    assert Run(lost).log_end(most) == end


def test_an_event_file_that_cannot_be_read_is_told_once(lost: Path) -> None:
    (lost / "events" / "worker-0.jsonl").mkdir()  # may not be read by anybody, not even by root
    run = read(lost)
    told = f"{lost}/events/worker-0.jsonl cannot be read: Is a directory. What it holds is missing here."
    assert run.facts.notices == (told,)
    write(lost, {"t": 2.0, "kind": "notice", "text": "more"})
    run.catch_up()
    assert run.facts.notices == (told, "more")


def test_a_supervisors_log_that_cannot_be_read_is_not_taken_for_none(lost: Path) -> None:
    (lost / "events" / "supervisor.jsonl").unlink()
    (lost / "events" / "supervisor.jsonl").mkdir()
    os.utime(lost / "spec.json", (0, 0))
    assert "not known, since its events cannot be read" in str(read(lost).facts.error)


def test_a_spec_that_cannot_be_used_is_why_a_run_is_not_resumed(lost: Path) -> None:
    (lost / "spec.json").write_text("[]")
    with pytest.raises(ValueError, match=r"spec\.json is not a spec that can be used\. It is not a JSON object"):
        Run.resume(lost)


def test_a_run_without_its_events_is_damaged_not_closed(lost: Path) -> None:
    (lost / "events" / "supervisor.jsonl").unlink()
    (lost / "events").rmdir()
    os.utime(lost / "spec.json", (0, 0))
    with pytest.raises(RunError, match=r"is damaged: .*events is missing"):
        Run.resume(lost)


def test_a_run_that_says_nothing_is_not_said_to_be_run(lost: Path) -> None:
    (lost / "events" / "supervisor.jsonl").write_bytes(b"\xff\n")
    with pytest.raises(ValueError, match="has not started"):
        Run.resume(lost)


def test_a_run_without_a_folder_for_requests_is_told_of_as_such(lost: Path) -> None:
    (lost / "control").rmdir()
    with pytest.raises(RunError, match=r"Run lost cannot receive requests, since .*control is not there\. Make"):
        Run(lost).request("stop")


def test_a_root_that_cannot_be_made_is_told_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        RunError, match=r"file cannot be a folder of runs, since .*file is a file\. Keep runs elsewhere"
    ):
        Run.start(make_spec("digits_mlp"), tmp_path / "file")
    with pytest.raises(RunError, match=r"since .*/file is a file\. Keep runs elsewhere"):
        Run.start(make_spec("digits_mlp"), tmp_path / "file" / "runs")


def test_a_root_where_nothing_can_be_made_is_not_said_to_be_gone() -> None:
    with pytest.raises(
        RunError, match=r"^/proc/x could not be made in /proc: .*\. Keep runs elsewhere with --runs DIR\.$"
    ):
        Run.start(make_spec("digits_mlp"), Path("/proc/x"))
