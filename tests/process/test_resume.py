"""Handwritten logs of resumed runs: how readers handle a second leg."""

import contextlib
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from core.errors import RunError
from core.history.index import RunIndex
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.event_kinds import Ready
from core.schema.events import Tail, Writer, whole_bytes
from core.schema.spec import write_spec
from core.series.run_series import RunSeries
from core.supervisor.claim import clear
from core.system import processes
from tests.support.running import CAME_UP, Followed, attached, make_spec
from tests.support.waiting import wait_until

PAUSED = [*CAME_UP, RunState.RELEASING, RunState.PAUSED]
NOBODY = {"pid": 2**22 + 1, "created": 0.0}


class Log:
    """A run directory written by the test in place of a supervisor and a worker."""

    def __init__(self, run_dir: Path) -> None:
        self.dir = run_dir
        (run_dir / "events").mkdir(parents=True)
        (run_dir / "control").mkdir()
        write_spec(run_dir, make_spec("digits_mlp"))

    def write(self, name: str, *events: dict[str, object]) -> None:
        with (self.dir / "events" / name).open("a") as file:
            file.writelines(json.dumps(event, separators=(",", ":")) + "\n" for event in events)

    def leg(self, t: float, *states: str) -> None:
        here = {name: getattr(processes.here(), name) for name in ("host", "boot", "pid_namespace")}
        self.write("supervisor.jsonl", {"t": t, "kind": "supervisor", **NOBODY, **here})
        for place, state in enumerate(states):
            self.write("supervisor.jsonl", {"t": t + 0.1 * (place + 1), "kind": "state", "state": state})

    def losses(self, t: float, first: int, *values: float) -> None:
        self.write("worker-0.jsonl", {"t": t, "kind": "metrics", "first": first, "values": {"loss": list(values)}})

    def rewind(self, t: float, step: int) -> None:
        self.write("worker-0.jsonl", {"t": t, "kind": "rewind", "step": step})


@pytest.fixture
def log(runs_root: Path) -> Log:
    """A run that was paused after four steps."""
    written = Log(runs_root / "one")
    written.leg(10.0, "starting", "running", "releasing", "paused")
    written.losses(10.2, 1, 4.0, 3.0, 2.0, 1.0)
    return written


def test_readers_of_an_ended_run_see_it_resume(log: Log, runs_root: Path) -> None:
    first, index = Followed(Run.attach(log.dir)), RunIndex(runs_root)
    assert first.until_over().states == PAUSED
    assert [each.state for each in index.poll()] == [RunState.PAUSED]
    log.leg(20.0, "starting", "running")
    log.rewind(20.2, 2)
    log.losses(20.3, 3, 0.5, 0.25)
    log.write("supervisor.jsonl", {"t": 20.4, "kind": "state", "state": "releasing"})
    log.write("supervisor.jsonl", {"t": 20.5, "kind": "state", "state": "finished"})
    late = Followed(Run.attach(log.dir)).until_over()
    assert first.poll().states == late.states == [*PAUSED, *CAME_UP, RunState.RELEASING, RunState.FINISHED]
    for reader in (first, late):
        np.testing.assert_array_equal(reader.run_series.metrics["loss"].steps, [1, 2, 3, 4])
        np.testing.assert_array_equal(reader.losses(), [4.0, 3.0, 0.5, 0.25])
    (summary,) = index.poll()
    assert (summary.state, summary.step, summary.last_loss) == (RunState.FINISHED, 4, 0.25)


def test_lost_leg_is_distinguished_from_the_next_leg(log: Log) -> None:
    log.leg(20.0, "starting", "running")
    log.losses(25.0, 5, 0.5)
    reader = Followed(Run.attach(log.dir)).until_over()
    assert reader.states == [*PAUSED, *CAME_UP, RunState.LOST]
    assert reader.run.facts.error
    log.leg(40.0, "starting", "running", "releasing", "finished")
    reader.poll()
    fresh = Followed(Run.attach(log.dir)).until_over()
    for each in (reader, fresh):
        assert each.states[-5:] == [RunState.LOST, *CAME_UP, RunState.RELEASING, RunState.FINISHED]
        assert (25.0, RunState.LOST) in each.run.facts.history
        assert each.run.facts.error is None
        assert each.run.facts.notices == ()


def test_run_list_ignores_steps_discarded_by_a_rewind(log: Log, runs_root: Path) -> None:
    log.rewind(20.0, 2)
    (summary,) = RunIndex(runs_root).poll()
    assert (summary.step, summary.last_loss) == (2, 3.0)


def test_finished_run_is_not_checked_again(log: Log, runs_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.leg(20.0, "starting", "running", "releasing", "finished")
    reader, index = Followed(Run.attach(log.dir)).until_over(), RunIndex(runs_root)
    index.poll()
    monkeypatch.setattr("core.runs.run.mark", _never)
    monkeypatch.setattr("core.history.index.mark", _never)
    reader.poll()
    index.poll()


def _never(run_dir: Path) -> None:
    raise AssertionError(run_dir)


def test_rewind_discards_later_values_of_every_metric(log: Log) -> None:
    def batch(t: float, first: int, **values: list[float]) -> dict[str, object]:
        return {"t": t, "kind": "metrics", "first": first, "values": values}

    events = [
        batch(1.0, 1, loss=[5.0, 4.0, 3.0]),
        batch(1.1, 3, val_loss=[3.5]),
        batch(1.2, 4, loss=[2.0, 1.0]),
        batch(1.3, 5, late=[9.0]),
        {"t": 2.0, "kind": "rewind", "step": 3},
        batch(2.1, 4, loss=[0.2]),
    ]
    at_once, in_pieces = RunSeries(), RunSeries()
    at_once.fold(events)
    for event in events:
        in_pieces.fold([event])
    for run_series in (at_once, in_pieces):
        assert run_series.metrics["loss"].values.tolist() == [5.0, 4.0, 3.0, 0.2]
        assert run_series.metrics["loss"].steps.tolist() == [1, 2, 3, 4]
        assert run_series.metrics["val_loss"].values.tolist() == [3.5]
        assert "late" not in run_series.metrics
        run_series.fold([{"t": 3.0, "kind": "rewind", "step": 0}])
        assert run_series.metrics == {}


@pytest.mark.parametrize("torn", [b"", b'{"t": 1.0, "ki', b"x" * 200_000])
def test_truncated_last_line_is_removed_before_appending(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "worker-0.jsonl"
    path.write_bytes(b'{"t": 1.0, "kind": "first"}\n' + torn)
    reader = Tail(path)
    assert [event["kind"] for event in reader.read()] == ["first"]
    assert whole_bytes(path) == 28
    writer = Writer(path)
    writer.write(Ready(rank=2))
    writer.close()
    assert [event["kind"] for event in reader.read()] == ["ready"]
    assert reader.garbage_lines == 0
    assert len(path.read_bytes().splitlines()) == 2


def test_tail_skip_reads_only_new_events(tmp_path: Path) -> None:
    path = tmp_path / "worker-0.jsonl"
    tail = Tail(path)
    tail.skip()  # there is no file yet
    path.write_bytes(b'{"t": 1.0, "kind": "old"}\n{"torn')
    tail = Tail(path)
    tail.skip()
    writer = Writer(path)
    writer.write(Ready(rank=3))
    writer.close()
    assert [event["kind"] for event in tail.read()] == ["ready"]


def test_run_with_an_unwritable_folder_cannot_be_resumed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: not str(path).endswith("events"))
    with pytest.raises(RunError, match="could not be written: Permission denied"):
        Run.resume(log.dir)


def test_copy_of_a_run_is_not_resumed_while_the_original_runs(log: Log, tmp_path: Path) -> None:
    """The new supervisor would end the processes of the original, which have the same tag."""
    copy = log.dir.rename(log.dir.with_name(f"copied-{os.getpid()}"))
    original = tmp_path / "elsewhere" / copy.name
    original.mkdir(parents=True)
    variables = {processes.TAG: copy.name, processes.RUN_DIR: str(original)}
    running = subprocess.Popen(["sleep", "600"], env={**os.environ, **variables})
    with running, contextlib.ExitStack() as stack:
        stack.callback(running.kill)
        wait_until(lambda: processes.tagged(copy.name), "its own image")
        with pytest.raises(RunError, match=f"cannot be resumed while {original} is running: both have the same name"):
            clear(copy)
        assert running.poll() is None


def test_process_terminated_before_a_resume_is_reported_in_the_new_leg(log: Log) -> None:
    name = f"leg-{os.getpid()}"  # a tag that no other test has
    (log.dir / "pymp-abc").mkdir()
    log.dir = log.dir.rename(log.dir.with_name(name))
    left = subprocess.Popen(["sleep", "600"], env={**os.environ, processes.TAG: name})
    with left, contextlib.ExitStack() as stack:
        stack.callback(left.kill)
        wait_until(lambda: processes.tagged(name), "its own image")
        clear(log.dir)
        assert left.poll() is not None
    assert not list(log.dir.glob("pymp-*"))
    lost = attached(log.dir)
    log.leg(2e9, "starting", "running")
    first, late = lost, Run.attach(log.dir)
    first.catch_up()
    late.catch_up()
    for run in (first, late):
        ((pid, signal_name, by),) = ((each.pid, each.signal, each.by) for each in run.facts.ended_processes)
        assert (pid, signal_name, by) == (left.pid, "SIGTERM", "supervisor")
        ended = f"pid {pid} sleep (SIGTERM)"
        assert run.facts.notices == (
            f"A process of the run was still running and was terminated before the run was resumed: {ended}.",
        )
    log.write("supervisor.jsonl", {"t": 2e9 + 5, "kind": "state", "state": "releasing"})
    log.write("supervisor.jsonl", {"t": 2e9 + 6, "kind": "state", "state": "paused"})
    log.leg(2e9 + 10, "starting")
    late.catch_up()
    assert late.facts.ended_processes == ()
    assert late.facts.notices == ()
