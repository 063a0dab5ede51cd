"""Run: a run directory seen from outside. Starts it, follows it, asks things of it.

Any number of `Run` objects, in any number of processes, may look at one directory; none of them
keeps anything that the directory does not hold.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from core import processes
from core.errors import RunError
from core.events import EVENTS, Event, Log, make_reserve
from core.spec import SPEC_FILE, RunSpec, read_spec, write_spec
from core.state import Facts, RunState, fold, row

if TYPE_CHECKING:
    from collections.abc import Collection

    from core.state import ProcessId

COMING_UP_S = 20.0
"""A supervisor that has not written its first event after so long never will."""
REQUESTS = ("stop", "force")
_CODE_ROOT = Path(__file__).resolve().parents[1]


class Run:
    """One run, as far as its directory tells."""

    def __init__(
        self, run_dir: Path, *, coming_up: ProcessId | None = None, only: Collection[str] | None = None
    ) -> None:
        """`coming_up`: the supervisor, when it was just started. `only`: the event files to read; None for all."""
        self.dir = run_dir
        self.facts = Facts()
        self._log = Log(run_dir, only)
        self._coming_up = coming_up
        self._last_event_time = 0.0
        self._garbage_told = 0

    @classmethod
    def start(cls, spec: RunSpec, runs_root: Path) -> Run:
        """Write a new run directory and start its supervisor, detached: it outlives its caller.

        Raises `RunError` with a sentence when the folder cannot be written, or the disk is full.
        """
        run_dir = None
        try:
            run_dir = _new_directory(runs_root, spec.name)
            make_reserve(run_dir / EVENTS)
            write_spec(run_dir, spec)  # last: from now on it is a run
            return cls(run_dir, coming_up=launch_supervisor(run_dir))
        except (OSError, subprocess.CalledProcessError) as error:
            if run_dir is not None:
                shutil.rmtree(run_dir, ignore_errors=True)
            raise RunError(_cannot_start(runs_root, error)) from error

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
        """Read what is new, bring `facts` up to date, and return the new events. Never blocks."""
        if row(self.facts.state).over:
            return []
        alive = self._supervisor_lives()  # before reading: what it wrote in its last moment is then read
        events = self._log.read()
        if events:
            self._last_event_time = float(events[-1]["t"])
        self.facts = self._with_garbage(fold(self.facts, events))
        if not events and not alive and not row(self.facts.state).over:
            self.facts = self._lost()
        return events

    def catch_up(self) -> list[Event]:
        """All that there is to read by now: after it, a run whose supervisor is gone is known to be lost."""
        events: list[Event] = []
        while new := self.poll():
            events += new
        return events

    def request(self, what: str) -> None:
        """Ask the supervisor to `stop`, or to `force` a stop that is under way.

        Raises `RunError` with a sentence when the request cannot be written.
        """
        assert what in REQUESTS, what
        try:
            (self.dir / "control" / what).touch()
        except OSError as error:
            raise RunError(_cannot_write(self.dir, error)) from error

    def log_end(self, most_bytes: int = 4000) -> str:
        """The last lines that the workers printed."""
        try:
            with (self.dir / "log.txt").open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - most_bytes))
                return file.read().decode(errors="replace")
        except OSError:
            return ""

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

    def _with_garbage(self, facts: Facts) -> Facts:
        new = self._log.garbage_lines - self._garbage_told
        self._garbage_told += new
        if not new:
            return facts
        text = f"{new} line(s) in {self.dir / EVENTS} are no events and were passed over; all others are shown."
        return replace(facts, notices=(*facts.notices, text))

    def _lost(self) -> Facts:
        end = self.log_end(600).strip()
        if not self.dir.is_dir():
            what = f"The run's folder {self.dir} was removed."
        elif self.facts.supervisor is None:
            what = "The run never came up: its supervisor ended, or was not started, before its first word."
        else:
            pid = self.facts.supervisor.pid
            what = f"The run's supervisor (pid {pid}) ended without a word; its workers ended with it."
        error = f"{what} The end of the log: {end}" if end else f"{what} The log is empty."
        ended = self._last_event_time or time.time()
        return replace(
            self.facts, state=RunState.LOST, error=error, history=(*self.facts.history, (ended, RunState.LOST))
        )


def launch_supervisor(run_dir: Path) -> ProcessId | None:
    """Start the supervisor of a run directory; None when it has ended already.

    A shell starts it in the background and ends: the supervisor then is no child of ours, so a
    window that stays open for weeks gathers no zombies, and one that is closed leaves none behind.
    It starts in the folder that holds `core`, so that no `core` of the user's can take its place.
    """
    with (run_dir / "log.txt").open("ab") as log:
        shell = subprocess.run(
            [
                "/bin/sh",
                "-c",
                '"$@" >&2 & echo $!',
                "sh",
                sys.executable,
                "-m",
                "core.supervisor",
                str(run_dir.resolve()),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=_CODE_ROOT,
            start_new_session=True,
            check=True,
        )
    return processes.identify(int(shell.stdout))


def _new_directory(runs_root: Path, name: str) -> Path:
    """An empty run directory that nobody else has: made, not looked for."""
    runs_root.mkdir(parents=True, exist_ok=True)
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "run"
    run_dir = runs_root.resolve() / f"{time.strftime('%Y%m%d-%H%M%S')}-{plain[:40]}-{os.urandom(2).hex()}"
    run_dir.mkdir(mode=0o700)
    for part in (EVENTS, "control", "checkpoints"):
        (run_dir / part).mkdir(mode=0o700)
    return run_dir


def _cannot_start(runs_root: Path, error: OSError | subprocess.CalledProcessError) -> str:
    if isinstance(error, OSError):
        return _cannot_write(runs_root, error)
    return f"The run's supervisor could not be started in {runs_root}: {error}."


def _cannot_write(folder: Path, error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return f"{folder} is not there any more. Start another run."
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"The disk that holds {folder} is full. Free some space, or keep runs elsewhere with --runs DIR."
    return (
        f"{folder} cannot be written: {error.strerror}. Change its permissions, or keep runs elsewhere with --runs DIR."
    )
