"""Real runs whose workers fail: the state, the message with its rank, and the end of the other workers.

The group of workers: waiting, abandoning stuck ones, and describing a failure in one sentence.
"""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from core.catalog.strategies import find_strategy
from core.devices.cpu import cpu_devices
from core.launchers.local import assign_ranks
from core.runs.facts import RunState
from core.schema.event_kinds import WorkerError
from core.schema.events import Tail
from core.schema.settings import StopTimeouts
from core.supervisor import workers as workers_module
from core.supervisor.workers import Worker, WorkerGroup, describe
from core.system import processes
from core.system.processes import ProcessId
from core.worker import main
from core.worker.context import Context
from tests.support.running import CAME_UP, FOREVER, LONG, at_step, make_spec, start, train, write_recipe
from tests.support.waiting import PATIENCE_S, wait_until

FAILED = [*CAME_UP, RunState.RELEASING, RunState.FAILED]


def test_killed_worker_fails_the_run_and_ends_the_other(runs_root: Path, endless: str) -> None:
    followed = start(make_spec(endless, epochs=FOREVER, devices="cpu:0,cpu:1"), runs_root).until_trained(10)
    os.kill(followed.run.facts.workers[1].process.pid, signal.SIGKILL)
    followed.until_over()
    assert followed.states == FAILED
    assert str(followed.run.facts.error).startswith(
        "Worker 1 on cpu:1 was ended by SIGKILL, which this run did not send."
    )
    assert not any(processes.is_alive(worker.process) for worker in followed.run.facts.workers.values())


def test_recipe_exception_fails_the_run_with_message_and_traceback(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, f"{LONG}\ndef loss():\n    return lambda output, target: 1 / 0\n", "raises")
    followed = train(make_spec(recipe), runs_root)
    assert followed.states == FAILED
    assert followed.run.facts.error == "Worker 0 on cpu:0: ZeroDivisionError: division by zero."
    assert "return lambda output, target: 1 / 0" in str(followed.run.facts.traceback)
    assert "ZeroDivisionError" in followed.run.log_end()


def test_losses_up_to_the_step_that_raised_are_recorded(runs_root: Path, tmp_path: Path) -> None:
    """Twenty steps take less time than passes between two reports."""
    source = at_step(21, 'raise ValueError("label out of range")', returns="float(len(calls))")
    recipe = write_recipe(tmp_path, source, "raises_late")
    followed = train(make_spec(recipe, epochs=FOREVER), runs_root)
    assert followed.run.facts.error == "Worker 0 on cpu:0: ValueError: label out of range."
    assert followed.losses() == [float(step) for step in range(1, 21)]


def test_losses_up_to_a_step_that_hangs_are_recorded_when_the_run_is_stopped(runs_root: Path, tmp_path: Path) -> None:
    hangs = "import pathlib, time\npathlib.Path(__file__).with_name('hangs').touch()\ntime.sleep(600)"
    recipe = write_recipe(tmp_path, at_step(21, hangs, returns="float(len(calls))"), "hangs")
    stop_timeouts = StopTimeouts(ask_s=0.1, interrupt_s=PATIENCE_S)
    followed = start(make_spec(recipe, epochs=FOREVER, stop_timeouts=stop_timeouts), runs_root)
    wait_until((tmp_path / "hangs").exists, "the step that hangs")
    followed.stop()
    assert followed.state is RunState.STOPPED
    assert followed.losses() == [float(step) for step in range(1, 21)]


@pytest.mark.parametrize("broken", ["raises", "hangs"])
def test_error_is_recorded_where_the_last_losses_cannot_be_fetched(broken: str, tmp_path: Path, monkeypatch) -> None:
    let_go = threading.Event()

    def fetch() -> None:
        if broken == "raises":
            raise RuntimeError("CUDA error: device-side assert triggered")
        let_go.wait()

    monkeypatch.setattr(main, "LAST_LOSSES_S", 0.05)
    told: list[str] = []
    context = SimpleNamespace(record_last=fetch, record_peaks=lambda: told.append("peaks"))
    main.record_last(cast("Context", context))
    assert told == ["peaks"] * (broken == "raises")
    let_go.set()


ON_RANK_1 = "import json, os, sys, time\nif json.loads(sys.argv[2])['rank'] == 1:\n    {act}"
LEAVES = "ended with exit code 0 before its training was done."


@pytest.mark.parametrize(
    ("source", "states", "error"),
    [
        pytest.param(
            at_step(20, ON_RANK_1.format(act="raise ValueError('label out of range')")), FAILED,
            "Worker 1 on cpu:1: ValueError: label out of range.", id="the other trains",
        ),
        pytest.param(  # as with NCCL: a rank that waits for a lost rank hangs silently until it is terminated
            at_step(1, ON_RANK_1.format(act="raise RuntimeError('CUDA out of memory, say')") + "\ntime.sleep(3600)"),
            FAILED, "Worker 1 on cpu:1: RuntimeError: CUDA out of memory, say.", id="the other waits",
        ),
        pytest.param(
            f"{LONG}\n{ON_RANK_1.format(act='os._exit(0)')}", [RunState.STARTING, RunState.RELEASING, RunState.FAILED],
            f"Worker 1 on cpu:1 {LEAVES}", id="it leaves",
        ),
    ],
)
def test_error_names_the_rank_that_failed_first(source, states, error, runs_root: Path, tmp_path: Path) -> None:
    followed = train(make_spec(write_recipe(tmp_path, source), epochs=FOREVER, devices="cpu:0,cpu:1"), runs_root)
    assert followed.states == states
    assert error in str(followed.run.facts.error)


# -- the worker group ------------------------------------------------------------------------------


TRACED = """in user code:

    File "recipe.py", line 23, in measure  *
        return base(y, p)

    ValueError: Cannot take the length of shape with unknown rank.
"""
IN_THE_GRAPH = """Graph execution error:

Detected at node PyFunc defined at (most recent call last):
<stack traces unavailable>
ValueError: label out of range
Traceback (most recent call last):
  File "script_ops.py", line 269, in __call__
"""


@pytest.mark.parametrize(
    ("message", "quoted"),
    [
        ("it broke", ": it broke."),
        ("two\nlines", ": two."),
        (TRACED, ": Cannot take the length of shape with unknown rank."),
        (IN_THE_GRAPH, ": label out of range."),
        (
            "Error(s) in loading state_dict for Net:\n\tMissing key(s)",
            ": Error(s) in loading state_dict for Net: Missing key(s).",
        ),
        ("", "."),
    ],
)
def test_description_quotes_the_informative_line_of_an_error(message: str, quoted: str) -> None:
    (assignment,) = assign_ranks(cpu_devices()[:1], find_strategy("pytorch", "single"))
    process, tail = cast("subprocess.Popen[bytes]", SimpleNamespace(pid=1)), cast("Tail", None)
    member = Worker(assignment, process, None, tail, error=WorkerError(type_name="ValueError", message=message))
    assert describe(member) == f"Worker 0 on cpu:0: ValueError{quoted}"


def test_worker_that_survives_sigkill_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker is blocked in the kernel; the leftover process check takes it over."""
    (assignment,) = assign_ranks(cpu_devices()[:1], find_strategy("pytorch", "single"))
    process = cast("subprocess.Popen[bytes]", SimpleNamespace(pid=1, poll=lambda: None))
    identity = ProcessId(pid=1, created=2.0)
    monkeypatch.setattr(workers_module, "STUCK_AFTER_S", PATIENCE_S)
    workers = WorkerGroup(tmp_path)
    member = Worker(assignment, process, identity, cast("Tail", None))
    workers.members.append(member)
    assert workers.poll() == []
    member.killed_at = time.monotonic()
    assert (workers.working, workers.alive) == ([member], [identity])
    member.killed_at -= PATIENCE_S
    assert (workers.working, workers.alive) == ([], [identity])


def test_wait_returns_when_any_worker_exits(tmp_path: Path) -> None:
    (assignment,) = assign_ranks(cpu_devices()[:1], find_strategy("pytorch", "single"))
    workers = WorkerGroup(tmp_path)
    with subprocess.Popen(["sleep", "600"]) as one, subprocess.Popen(["sleep", "600"]) as other:
        for process in (one, other):
            workers.members.append(Worker(assignment, process, None, cast("Tail", None)))
        workers.wait(0.0)
        assert workers.poll() == []
        other.kill()
        workers.wait(FOREVER)
        assert [member.process for member in workers.poll()] == [other]
        one.kill()
        workers.wait(FOREVER)  # only the remaining worker can cut the wait short
        assert [member.process for member in workers.poll()] == [one]
        assert workers.working == []
