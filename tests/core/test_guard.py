"""The guard tells of all that it has ended, however long their ends take."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING

from core import guard, holders, processes

if TYPE_CHECKING:
    import pytest

    from core.findings import Holder


def test_one_that_takes_its_time_to_end_is_waited_for_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it gives up its memory it has no tag any more, and lives."""
    with subprocess.Popen(["sleep", "600"]) as process, contextlib.ExitStack() as stack:
        stack.callback(process.kill)
        identity = processes.identify(process.pid)
        assert identity
        found = [[identity]]
        looks = 0

        def describe(pid: int) -> Holder:
            nonlocal looks
            looks += 1
            if looks == 100:
                process.kill()
                process.wait()
            return known(pid)

        known = holders.describe
        clock = itertools.count(step=guard.LOOK_AGAIN_S)
        monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None))
        monkeypatch.setattr(processes, "tagged", lambda _: found.pop() if found else [])
        monkeypatch.setattr(processes, "send_tagged", lambda *_: True)
        monkeypatch.setattr(holders, "describe", describe)
        (ended,) = guard._end_all("run-1")
        assert (ended.pid, ended.name, ended.signal, ended.by) == (process.pid, "sleep", "SIGKILL", "guard")
