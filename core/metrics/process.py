"""The process that reads what a script measures (`core.metrics.collector`), as its supervisor sees it."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import TYPE_CHECKING

from core.schema.events import Tail
from core.schema.paths import COLLECTOR_EVENTS, EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from core.schema.events import Event
    from core.schema.spec import RunSpec


READY_S = 20.0
FINISH_S = 20.0
"""What a script has printed last is read within so long, or not at all."""
NAP_S = 0.01


class MetricsProcess:
    """Reads in a process of its own, so that neither a flood of output nor a slow expression holds the supervisor up.

    It is forked, as the guard is: a new Python would need as long as all that comes before the script's start.
    """

    def __init__(self, run_dir: Path, spec: RunSpec, *, let_go: Iterable[int]) -> None:
        """Fork it. `let_go`: descriptors that it must not keep. Call it before any thread is started."""
        self._tail = Tail(run_dir / EVENTS / COLLECTOR_EVENTS)
        ends, stay = os.pipe()  # its closing, at the latest with this process's end, means: read on and leave
        self._ready, tells = os.pipe()
        self._held = [stay, self._ready]
        """What has yet to be closed."""
        self._pid = os.fork()
        self._code: int | None = None
        if self._pid == 0:
            _become_collector(run_dir, spec, ends, tells, [*let_go, *self._held])
        os.close(ends)
        os.close(tells)

    def wait(self) -> bool:
        """Until it has seen what there is, so that the script may be started; False when it has ended instead."""
        readable, _, _ = select.select([self._ready], [], [], READY_S)
        return bool(readable and os.read(self._ready, 1))

    def read(self) -> list[Event]:
        """What it has written since the last call."""
        return self._tail.read()

    @property
    def gone(self) -> bool:
        """Whether it has ended."""
        if self._code is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code is not None

    def finish(self) -> str | None:
        """Have all read that there is. A sentence when it was not."""
        self._let_go()
        deadline = time.monotonic() + FINISH_S
        while not self.gone and time.monotonic() < deadline:
            time.sleep(NAP_S)
        if not self.gone:
            self.close()
            return (
                f"What was printed last could not be read for measurements within {FINISH_S:g} s, so the end of the "
                "curves may be missing. The log itself is whole."
            )
        if self._code:
            return "What was printed could not be read for measurements to its end. The log itself is whole."
        return None

    def close(self) -> None:
        """End it at once, if it has not ended."""
        self._let_go()
        if not self.gone:
            os.kill(self._pid, signal.SIGKILL)  # not yet waited for, so the pid cannot be another's
            os.waitpid(self._pid, 0)
            self._code = -signal.SIGKILL

    def _let_go(self) -> None:
        """Close this side's ends of both pipes; once they are closed, do nothing."""
        while self._held:
            os.close(self._held.pop())


def _become_collector(run_dir: Path, spec: RunSpec, ends: int, tells: int, let_go: Iterable[int]) -> None:
    code = 1
    try:
        for descriptor in let_go:
            os.close(descriptor)
        os.setsid()  # a signal to the supervisor's group, such as a shutdown's, is not for it
        from core.metrics import collector

        code = collector.collect(run_dir, spec, until_closed=ends, tells=tells)
    except Exception:  # noqa: BLE001 (the outer border of this process; what ended it stands in the log, and nowhere else)
        from traceback import print_exc

        print_exc()
    finally:
        os._exit(code)
