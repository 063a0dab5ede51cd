"""A worker that trains on another machine, where a supervisor of its own starts and ends it."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from core.supervisor.workers import Worker

if TYPE_CHECKING:
    from core.hosts.parts.part_link import PartLink
    from core.schema.events import Tail
    from core.schema.spec import RankAssignment


class RemoteWorker(Worker):
    """A worker of a part. Signals become requests to the supervisor there, which escalates by itself."""

    def __init__(self, assignment: RankAssignment, tail: Tail, link: PartLink) -> None:
        """`assignment`: with the ids of devices as the run has them."""
        super().__init__(assignment, None, None, tail)
        self._link = link

    def poll_exit(self) -> int | None:
        """Return its exit code; None while it runs, or while its last events have not arrived."""
        found = self._link.exit_of(self.assignment.rank)
        if found is None:
            return None
        code, self.signalled = found  # whether it was signalled is what the supervisor there says
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Have it stopped by its supervisor; SIGKILL forces that."""
        self._link.request("stop")
        if number is signal.SIGKILL:
            self.killed_at = self.killed_at or time.monotonic()
            self._link.request("force")
