"""The worker group: waiting, abandoning stuck workers, and describing a failure in one sentence."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from core.catalog.strategies import find_strategy
from core.devices.cpu import cpu_devices
from core.launchers.local import assign_ranks
from core.schema.event_kinds import WorkerError
from core.schema.events import Tail
from core.supervisor import workers as workers_module
from core.supervisor.workers import Worker, WorkerGroup, describe
from core.system.processes import ProcessId
from tests.support.running import FOREVER
from tests.support.waiting import PATIENCE_S

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
