"""Run: a run directory seen from outside. Starts it, follows it, asks things of it, resumes it.

Any number of `Run` objects, in any number of processes, may look at one directory; none of them
keeps anything that the directory does not hold.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from core.errors import RunError
from core.runs.directory import cannot_make, cannot_start, cannot_write, launch_supervisor, new_directory
from core.runs.facts import RunFacts, fold
from core.runs.lock import cannot_resume
from core.runs.output_log import end_of
from core.runs.requests import REQUESTS
from core.runs.states import RunState, state_info
from core.schema import paths
from core.schema.events import Event, Log, make_reserve
from core.schema.paths import CONTROL, EVENTS, LOG_FILE, SPEC_FILE, SUPERVISOR_EVENTS
from core.schema.spec import RunSpec, read_spec, write_spec
from core.system import processes

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from core.system.processes import ProcessId

COMING_UP_S = 20.0
"""A supervisor that has not written its first event after so long never will."""
RESUMING_S = 40.0
"""More than the supervisor itself waits for an earlier one to leave, and for what that left behind to end."""
NAP_S = 0.02

Mark = tuple[tuple[int, int] | None, ...]


class Run:
    """One run, as far as its directory tells."""

    def __init__(
        self, run_dir: Path, *, coming_up: ProcessId | None = None, only: Collection[str] | None = None
    ) -> None:
        """`coming_up`: the supervisor, when it was just started. `only`: the event files to read; None for all."""
        self.dir = run_dir
        self.facts = RunFacts()
        self._log = Log(run_dir, only)
        self._coming_up = coming_up
        self._whole = only is None
        self._garbage_told = 0
        self._troubles_told: set[str] = set()
        self._mark: Mark = ()
        """How the supervisor's and the guard's log looked before they were last read."""

    @classmethod
    def start(cls, spec: RunSpec, runs_root: Path) -> Run:
        """Write a new run directory and start its supervisor, detached: it outlives its caller.

        Raises `RunError` with a sentence when the folder cannot be written, or the disk is full.
        """
        run_dir = None
        try:
            run_dir = new_directory(runs_root, spec.name)
            make_reserve(run_dir / EVENTS)
            write_spec(run_dir, spec)  # last: from now on it is a run
            return cls(run_dir, coming_up=launch_supervisor(run_dir))
        except (OSError, subprocess.CalledProcessError) as error:
            if run_dir is not None:
                shutil.rmtree(run_dir, ignore_errors=True)
            raise RunError(cannot_make(runs_root, error)) from error

    @classmethod
    def resume(cls, run_dir: Path) -> Run:
        """Go on with a run that was paused or stopped, that failed or was lost: where its last checkpoint is.

        Returns when its new supervisor has come up, which may take seconds; of what is returned, nothing has
        been read yet. Raises `ValueError` with a sentence when the directory is no run, is finished or runs, or its
        spec cannot be used; `RunError` when it could not be resumed.
        """
        run = cls.attach(run_dir)
        if run.spec().script is not None:
            raise ValueError(
                f"Run {run.id} is a script, which saves, if it does, in a way of its own: it cannot be resumed. "
                f"Run it again: trainyard again {run.id}"
            )
        run.catch_up()
        if not state_info(run.facts.state).can_resume:
            raise ValueError(cannot_resume(run_dir, run.facts.state))
        if not os.access(run_dir / EVENTS, os.W_OK):
            number = errno.EACCES if (run_dir / EVENTS).is_dir() else errno.ENOENT
            raise RunError(cannot_write(run_dir, OSError(number, os.strerror(number), str(run_dir / EVENTS))))
        try:
            launched = launch_supervisor(run_dir, "--resume")
        except (OSError, subprocess.CalledProcessError) as error:
            raise RunError(cannot_start(run_dir, error)) from error
        run._wait_for_leg(launched, run.facts.legs + 1)  # noqa: SLF001 (its own class)
        return cls(run_dir)

    def _wait_for_leg(self, launched: ProcessId | None, leg: int) -> None:
        """Until the supervisor that was launched has begun this leg. Raises `RunError` when it does not."""
        deadline, before = time.monotonic() + RESUMING_S, len(self.facts.history)
        while time.monotonic() < deadline:
            alive = launched is not None and processes.is_alive(launched)  # before reading, see `poll`
            self.catch_up()
            # With its first transition: before it, the run still looks as if it were over.
            if self.facts.legs >= leg and self.facts.supervisor == launched and len(self.facts.history) > before:
                return
            if not alive:
                raise RunError(self._not_resumed())
            time.sleep(NAP_S)
        raise RunError(f"Run {self.id} was not resumed within {RESUMING_S:g} s. The end of its log may say why.")

    def _not_resumed(self) -> str:
        if not state_info(self.facts.state).over:
            return f"Run {self.id} was resumed by another at the same moment. Attach to it."
        lines = self.log_end().strip().splitlines()
        return lines[-1] if lines else f"Run {self.id} could not be resumed, and its log does not say why."

    @classmethod
    def attach(cls, run_dir: Path) -> Run:
        """Follow a run that exists. Raises `ValueError` with a sentence when the directory is no run."""
        if not os.access(run_dir / SPEC_FILE, os.R_OK):
            raise ValueError(f"{run_dir} is not a run directory that can be read: it has no readable {SPEC_FILE}.")
        return cls(run_dir)

    @property
    def id(self) -> str:
        """The name of the directory, which every process of the run carries as its tag."""
        return self.dir.name

    def spec(self) -> RunSpec:
        """What was asked. Raises `ValueError` with a sentence, for a newer version's spec too."""
        return read_spec(self.dir)

    def poll(self) -> list[Event]:
        """Read what is new, bring `facts` up to date, and return the new events. Never blocks.

        A run that is over may be resumed, by anybody, and the guard of one that was lost tells whom it ended: it is
        looked at again when its supervisor's log or its guard's has changed.
        """
        if state_info(self.facts.state).over and (
            self.facts.state is RunState.FINISHED or self._mark == mark(self.dir)
        ):
            return []
        alive = self._supervisor_lives()  # before reading: what it wrote in its last moment is then read
        self._mark = mark(self.dir)  # before reading, too
        events = self._log.read()
        self.facts = self._with_troubles(fold(self.facts, events))
        if state_info(self.facts.state).over:
            # Of files that were read before the one with the last word, the last lines may have been missed.
            more = self._log.read()
            self.facts = self._with_troubles(fold(self.facts, more))
            events += more
            if events and self.facts.state is RunState.LOST:  # the guard has told whom it ended
                self.facts = replace(self.facts, error=self._how_lost())
        if not events and not alive and not state_info(self.facts.state).over:
            self.facts = self._lost()
        return events

    def catch_up(self) -> list[Event]:
        """All that there is to read by now: after it, a run whose supervisor is gone is known to be lost."""
        events: list[Event] = []
        while new := self.poll():
            events += new
        return events

    def request(self, what: str) -> None:
        """Ask the run to `stop`, to `pause`, or to `save` a checkpoint now; or to `force`.

        That forces a stop which is under way, or ends the waiting for the memory.
        Raises `RunError` with a sentence when the request cannot be written.
        """
        assert what in REQUESTS, what
        control = self.dir / CONTROL
        try:
            (control / what).touch()
        except OSError as error:
            if self.dir.is_dir() and not control.is_dir():
                raise RunError(
                    f"Run {self.id} cannot be asked anything, since {control} is not there. Make that folder (mkdir), "
                    "then ask again."
                ) from error
            raise RunError(cannot_write(self.dir, error)) from error

    def log_end(self, max_bytes: int = 4000) -> str:
        """The last lines that the workers printed: whole ones, but for a single one that is longer than all this."""
        return end_of(self.dir / LOG_FILE, max_bytes)

    def _supervisor_lives(self) -> bool:
        known = self.facts.supervisor or self._coming_up
        if known is not None:
            return self._is_elsewhere() or processes.is_alive(known)
        with contextlib.suppress(OSError):
            return time.time() - (self.dir / SPEC_FILE).stat().st_mtime < COMING_UP_S
        return False

    def _is_elsewhere(self) -> bool:
        """Whether the run is on another machine or in another container, where its pids mean nothing to us."""
        here, place = processes.here(), self.facts.place
        if place is None or place == here:
            return False
        restarted = place.host == here.host and place.boot != here.boot
        return not restarted

    def _with_troubles(self, facts: RunFacts) -> RunFacts:
        """With a notice on what could not be read, or not be understood: each is told once."""
        troubles = [text for text in self._log.troubles if text not in self._troubles_told]
        self._troubles_told.update(troubles)
        new = self._log.garbage_lines - self._garbage_told
        self._garbage_told += new
        if new:
            what, were = ("1 line", "is no event and was") if new == 1 else (f"{new} lines", "are no events and were")
            troubles.append(f"{what} in {self.dir / EVENTS} {were} passed over; all others are shown.")
        return replace(facts, notices=(*facts.notices, *troubles)) if troubles else facts

    def _lost(self) -> RunFacts:
        ended = self.facts.latest or time.time()
        return replace(
            self.facts, state=RunState.LOST, error=self._how_lost(),
            history=(*self.facts.history, (ended, RunState.LOST)),
        )  # fmt: skip

    def _how_lost(self) -> str:
        end = self.log_end(600).strip()
        if not self.dir.is_dir():
            what = f"The run's folder {self.dir} was removed."
        elif self.facts.supervisor is None and self._log.troubles:
            what = "How the run ended is not known, since its events cannot be read."
        elif self.facts.supervisor is None:
            what = "The run never came up: its supervisor ended, or was not started, before its first word."
        else:
            what = f"The run's supervisor (pid {self.facts.supervisor.pid}) ended without a word{self._who_is_left()}."
        return f"{what} The end of the log: {end}" if end else f"{what} The log is empty."

    def _who_is_left(self) -> str:
        """What became of the processes of a run that was lost, as it is now, to end a sentence with.

        Looked for by whoever reads all of a run, where the sentence is made: those who only list runs read no `/proc`.
        """
        if not self._whole:
            return ""
        left = processes.tagged(self.id)
        if not left:
            return "; none of its processes is left"
        pids = ", ".join(str(each.pid) for each in left)
        return f"; of its processes these were still there: pid {pids}. `trainyard sweep` ends what stays"


def mark(run_dir: Path) -> Mark:
    """How the supervisor's log and the guard's look from outside: they have changed if this has."""
    return tuple(_look_of(f"{run_dir}/{EVENTS}/{name}") for name in (SUPERVISOR_EVENTS, paths.GUARD_EVENTS))


def _look_of(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 (asked for by every tick of a window)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
