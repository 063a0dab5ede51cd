"""The guard tells of all that it has ended, however long their ends take."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING

from core.supervisor import guard
from core.system import process_info, processes
from core.worker import deadman

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from core.system.process_info import ProcessInfo


def test_one_that_takes_its_time_to_end_is_waited_for_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it gives up its memory it has no tag any more, and lives."""
    with subprocess.Popen(["sleep", "600"]) as process, contextlib.ExitStack() as stack:
        stack.callback(process.kill)
        identity = processes.identify(process.pid)
        assert identity
        found = [[identity]]
        looks = 0

        def glance(pid: int, *proc: Path) -> ProcessInfo:
            nonlocal looks
            looks += 1
            if looks == 100:
                process.kill()
                process.wait()
            return known(pid, *proc)

        known = process_info.glance
        clock = itertools.count(step=guard.SCAN_S)
        monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None))
        monkeypatch.setattr(processes, "tagged", lambda _: found.pop() if found else [])
        monkeypatch.setattr(processes, "send_tagged", lambda *_: True)
        monkeypatch.setattr(process_info, "glance", glance)
        (ended,) = guard._kill_all("run-1")
        assert (ended.pid, ended.name, ended.signal, ended.by) == (process.pid, "sleep", "SIGKILL", "guard")


def test_who_ends_with_its_group_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first signal finds the worker; its group, and the data-loader worker in it, end at the same moment."""
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
        monkeypatch.setattr(processes, "tagged", lambda _: [each for each in identities if processes.is_alive(each)])
        monkeypatch.setattr(processes, "send_tagged", send)
        ended = guard._kill_all("run-1")
        assert [(each.pid, each.name) for each in ended] == [(each.pid, "sleep") for each in both]


def test_a_worker_gives_the_guard_a_moment_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    monkeypatch.setattr(deadman, "time", SimpleNamespace(sleep=done.append))
    monkeypatch.setattr(os, "killpg", lambda group, number: done.append((group, number.name)))
    reading, writing = os.pipe()
    os.close(writing)
    try:
        deadman._wait(reading)
    finally:
        os.close(reading)
    assert done == [deadman.GUARD_FIRST_S, (os.getpgrp(), "SIGKILL")]
