"""The guard reports every process that it terminated, however long its exit takes."""

import contextlib
import itertools
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.schema.event_kinds import ProcessInfo
from core.supervisor import guard
from core.system import processes
from core.system.terminate import RunProcesses
from core.worker import boot


def test_guard_waits_for_slow_exit_and_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is freeing its memory is alive but no longer has a readable tag."""
    with subprocess.Popen(["sleep", "600"]) as process, contextlib.ExitStack() as stack:
        stack.callback(process.kill)
        identity = processes.identify(process.pid)
        found = [[identity]]
        calls = 0

        def glance(pid: int, *proc: Path) -> ProcessInfo:
            nonlocal calls
            calls += 1
            if calls == 100:
                process.kill()
                process.wait()
            return known(pid, *proc)

        known = processes.glance
        clock = itertools.count(step=guard.SCAN_S)
        monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None))
        monkeypatch.setattr(processes, "tagged", lambda *_: found.pop() if found else [])
        monkeypatch.setattr(processes, "send_tagged", lambda *_: True)
        monkeypatch.setattr(processes, "glance", glance)
        (ended,) = guard._kill_all(RunProcesses(run_id="run-1"))
        assert (ended.pid, ended.name, ended.signal) == (process.pid, "sleep", "SIGKILL")


def test_guard_reports_processes_killed_with_their_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal to the worker kills its group; the data-loader worker in it exits at the same time."""
    with contextlib.ExitStack() as stack:
        both = [stack.enter_context(subprocess.Popen(["sleep", "600"])) for _ in range(2)]
        for each in both:
            stack.callback(each.kill)
        identities = [identity for each in both if (identity := processes.identify(each.pid))]

        def send(*_: object) -> bool:
            alive = [each for each in both if each.poll() is None]
            for each in alive:
                each.kill()
                each.wait()
            return bool(alive)

        clock = itertools.count(step=guard.SCAN_S)
        monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None))
        monkeypatch.setattr(processes, "tagged", lambda *_: [each for each in identities if processes.is_alive(each)])
        monkeypatch.setattr(processes, "send_tagged", send)
        ended = guard._kill_all(RunProcesses(run_id="run-1"))
        assert [(each.pid, each.name) for each in ended] == [(each.pid, "sleep") for each in both]


def test_worker_sleeps_before_killing_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    monkeypatch.setattr(boot, "time", SimpleNamespace(sleep=done.append))
    monkeypatch.setattr(os, "killpg", lambda group, number: done.append((group, number.name)))
    reading, writing = os.pipe()
    os.close(writing)
    try:
        boot._kill_at_end(reading)
    finally:
        os.close(reading)
    assert done == [boot.GUARD_FIRST_S, (os.getpgrp(), "SIGKILL")]
