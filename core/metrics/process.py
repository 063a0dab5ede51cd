"""Start, watch and end the process that collects a script's metrics (`core.metrics.collector`)."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable
from pathlib import Path

from core.errors import RunError
from core.language import tr, tr_noop
from core.schema.events import Event, Tail
from core.schema.paths import COLLECTOR_EVENTS, EVENTS
from core.schema.spec import RunSpec
from core.supervisor.companion import Companion
from core.supervisor.watches import DiskWatch
from core.supervisor.workers import WorkerGroup
from core.system.helper_process import ends_within, exit_code

READY_S = 20.0
"""Seconds to wait for the process. A script is not started without it."""
FINISH_S = 20.0
"""Seconds to wait, after the script's exit, for its last output to be read."""
LOST_READER = tr_noop(
    "The process that reads measurements from the script's output has ended, so the curves are no longer "
    "updated. The script continues, and its log is complete."
)


class MetricsProcess(Companion):
    """The collecting process of a script. Neither a flood of output nor a slow expression delays the supervisor.

    It is forked: a new Python would take as long as everything else before the script's start.
    """

    def __init__(self, run_dir: Path, spec: RunSpec) -> None:
        self._run_dir, self._spec = run_dir, spec
        self._tail = Tail(run_dir / EVENTS / COLLECTOR_EVENTS)
        self._disk = DiskWatch(run_dir)
        self._has_told = False
        self._open: list[int] = []
        """Descriptors of this side that are still open."""
        self._code: int | None = None

    def begin(self, close_fds: Iterable[int]) -> None:
        stop_fd, stop_end = os.pipe()  # the process finishes when this side is closed or has exited
        self._ready, ready_fd = os.pipe()
        self._open += [stop_end, self._ready]
        self._pid = os.fork()
        if self._pid == 0:
            _become_collector(self._run_dir, self._spec, ready_fd, stop_fd, [*close_fds, *self._open])
        os.close(stop_fd)
        os.close(ready_fd)

    def start(self, workers: WorkerGroup, spec: RunSpec) -> None:  # noqa: ARG002
        """Wait until the process knows the files that are there: their content is not of this run."""
        readable, _, _ = select.select([self._ready], [], [], READY_S)
        if not (readable and os.read(self._ready, 1)):
            raise RunError(tr("The process that reads measurements did not start. Start the run again."))

    def read(self) -> list[Event]:
        """Return the events that the process has written since the last call."""
        return self._tail.read()

    @property
    def _is_gone(self) -> bool:
        return self._code is not None or exit_code(self._pid) is not None

    def trouble(self) -> str:
        """Return once that the process has ended. On a full disk, the run reports the disk instead."""
        if self._has_told or not self._is_gone or self._disk.poll():
            return ""
        self._has_told = True
        return tr(LOST_READER)

    def settle(self) -> str:
        """Let the process read the rest and exit."""
        self._close_pipes()
        in_time = self._is_gone or ends_within(self._pid, FINISH_S)
        self.close()
        if self._disk.poll():
            return ""
        if not in_time:
            return tr(
                "The last output could not be searched for metrics within {finish_s:g} s, so the end of the curves "
                "may be missing. The log is complete: trainyard reread {run} reads all of it.",
                finish_s=FINISH_S, run=self._run_dir.name,
            )
        if self._code:
            return tr("The output could not be searched for metrics to its end. The log is complete.")
        return ""

    def close(self) -> None:
        """Kill the process, if it has not exited, and reap it."""
        self._close_pipes()
        if self._code is None:
            os.kill(self._pid, signal.SIGKILL)  # not reaped yet, so the pid cannot belong to another process
            self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def _close_pipes(self) -> None:
        while self._open:
            os.close(self._open.pop())


def _become_collector(run_dir: Path, spec: RunSpec, ready_fd: int, stop_fd: int, close_fds: Iterable[int]) -> None:
    code = 1
    try:
        for descriptor in close_fds:
            os.close(descriptor)
        os.setsid()  # do not receive signals to the supervisor's group, such as a shutdown's
        from core.metrics import collector

        code = collector.collect(run_dir, spec, ready_fd=ready_fd, stop_fd=stop_fd)
    except Exception:  # noqa: BLE001 (the outer border of this process; the traceback is in the log and nowhere else)
        from traceback import print_exc

        print_exc()
    finally:
        os._exit(code)
