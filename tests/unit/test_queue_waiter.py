"""What a waiting run does in the line, without its process: it becomes no supervisor here."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from core.queue.folder import own_line
from core.queue.waiter import LOOK_S, Waiter

LATE_S = 60.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the waiting run, in seconds."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def waiting(folder: Path, name: str, **fields: Any) -> Waiter:
    """Return a waiting run for `cpu:0`, as the process before it hands it over."""
    run_dir = folder / name
    run_dir.mkdir()
    line = own_line().line
    ticket = {"state": "waiting", "devices": ["cpu:0"], "labels": {}, "held": False, "since": 1.0, **fields}
    given = {
        "line": [line.own, line.parent, line.prefix], "lock": [], "ticket": line.put(name, ticket),
        "ticket_fields": ticket, "stop": "stop", "request": "queue.json",
        "claimed": "{device} is claimed.", "late_s": LATE_S, "start": [],
    }
    return Waiter(str(run_dir), given)


class BecameSupervisor(Exception):  # noqa: N818 (carries what would have been started)
    """Raised in place of becoming another process."""


def test_a_run_whose_process_is_stopped_is_passed_after_a_while(tmp_path, clock, monkeypatch) -> None:
    """The first in the line does nothing, as after SIGSTOP: its ticket is locked, and its device free."""

    def become(_: Waiter, __: list[str], **state: Any) -> None:
        raise BecameSupervisor(state["ticket_fields"]["devices"])

    monkeypatch.setattr(Waiter, "_become", become)
    stopped, second = waiting(tmp_path, "stopped", order=1.0), waiting(tmp_path, "second", order=2.0)
    until = clock[0] + LATE_S
    while clock[0] <= until:
        second.tick()
        clock[0] += LOOK_S + 1
    with pytest.raises(BecameSupervisor, match="cpu:0"):
        second.tick()
    for each in own_line().line.tickets():
        assert (each.run, each.state) in {("stopped", "waiting"), ("second", "holding")}
    clock[0] += LATE_S
    stopped.tick()  # it goes on, and finds the device taken
    assert own_line().line.is_waiting("stopped")
    for handle in (stopped, second):
        os.close(handle._ticket)
    os.close(second._devices["cpu:0"])
