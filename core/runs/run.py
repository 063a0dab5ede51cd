"""One run, by its directory: start it, follow it, send it requests, resume it.

Any number of `Run` objects in any number of processes may use one directory: a `Run` holds nothing that the directory
does not hold.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path

from core.errors import RunError
from core.language import join, join_sentences, tr, tr_noop
from core.runs import directory, foreign, lock, stopped
from core.runs.directory import keep_workload, read_part
from core.runs.facts import RunFacts, RunState, state_info, without_present
from core.runs.fold import fold
from core.runs.owners import owner_of_run
from core.runs.requests import REQUESTS
from core.schema import paths
from core.schema.event_log import Log
from core.schema.events import Event, make_reserve
from core.schema.files import last_lines, write_within
from core.schema.paths import CONTROL, EVENTS, LOG_FILE, SPEC_FILE, SUPERVISOR_EVENTS
from core.schema.spec import RunSpec, read_spec, write_spec
from core.system import processes
from core.system.processes import ProcessId
from core.text import first_names, join_names

COMING_UP_S = 20.0
"""Seconds after which a supervisor without a first event counts as lost."""
LAUNCH_S = 2.0
"""Seconds that the launch of a supervisor may take until its process can be seen."""
RESUMING_S = 40.0
"""Seconds to wait for a resumed run: longer than its supervisor waits for an earlier one and for its processes."""
NAP_S = 0.02
LAST_LINES = 5
"""Lines of the log that are shown of a lost run."""
# What readers add to the facts is English, as what the run stored, and is translated with it.
SKIPPED_LINE = tr_noop("{count} line in {folder} is not an event and was skipped; all others are shown.")
SKIPPED_LINES = tr_noop("{count} lines in {folder} are not events and were skipped; all others are shown.")
FOLDER_GONE = tr_noop("The run's folder {folder} was removed or renamed.")
UNREADABLE = tr_noop("How the run ended is not known, since its events cannot be read.")
NEVER_STARTED = tr_noop("The run never started: its supervisor exited before its first event, or was never launched.")
EXITED = tr_noop("The run's supervisor (pid {supervisor}) exited unexpectedly.")
NONE_LEFT = tr_noop("The run's supervisor (pid {supervisor}) exited unexpectedly; none of its processes is left.")
STILL_RUNNING = tr_noop(
    "The run's supervisor (pid {supervisor}) exited unexpectedly; processes of it were still running (pid {pids}), and "
    "`trainyard sweep` terminates those that are left."
)
LAST_OF_LOG = tr_noop("The last lines of its log:")
NO_LOG = tr_noop("The log is empty.")

Mark = tuple[tuple[int, int] | None, ...]
Launch = Callable[..., ProcessId | None]


class Run:
    """A run, as far as its directory shows."""

    def __init__(
        self, run_dir: Path, *, coming_up: ProcessId | None = None, only: Collection[str] | None = None
    ) -> None:
        """`coming_up`: a supervisor that was just started. `only`: the event files to read; None for all."""
        self.dir = run_dir
        self.facts = RunFacts()
        self._log = Log(run_dir, only)
        self._coming_up = coming_up
        self._reads_all = only is None
        self._garbage_reported = 0
        self._troubles_reported: set[str] = set()
        self._mark: Mark = ()
        """The state of the supervisor's and the guard's event file before they were last read."""

    @classmethod
    def start(cls, spec: RunSpec, runs_root: Path, launch: Launch | None = None) -> Run:
        """Make a run directory and start its supervisor, detached from this process.

        `launch`: starts another process in its place, such as one that waits in the queue. Raises `RunError` with a
        sentence when the folder cannot be written or locked, or the disk is full.
        """
        run_dir = None
        try:
            run_dir = directory.new_directory(runs_root, spec.name)
            lock.prepare(run_dir)
            make_reserve(run_dir / EVENTS)
            keep_workload(run_dir, spec)
            write_spec(run_dir, spec)  # last: a folder with this file is a run
            return cls(run_dir, coming_up=(launch or directory.launch_supervisor)(run_dir))
        except (OSError, subprocess.CalledProcessError, RunError) as error:
            if run_dir is not None:
                shutil.rmtree(run_dir, ignore_errors=True)
            if isinstance(error, RunError):
                raise
            raise RunError(directory.cannot_make(runs_root, error)) from error

    @classmethod
    def resume(
        cls, run_dir: Path, *, on: RunSpec | None = None, allow_open_ports: bool = False, launch: Launch | None = None
    ) -> Run:
        """Resume a run that was paused, stopped or lost, or that failed, from its last checkpoint.

        Returns a `Run` that has read nothing yet, once the new supervisor has started; this may take seconds. Raises
        `ValueError` with a sentence when the directory is no run, is finished or running, or has a spec that cannot be
        used; `RunError` when it could not be resumed. `on`: has the devices and the strategy to go on with, by default
        those of the run (see `core.config.moving`); `allow_open_ports`: set this in the spec; `launch`: see `start`.
        """
        run = cls.resumable(run_dir)
        change = () if on is None else (",".join(on.devices), on.strategy)
        try:
            if allow_open_ports:
                write_spec(run_dir, replace(read_spec(run_dir, changed=False), allow_open_ports=True))
            launched = (launch or directory.launch_supervisor)(run_dir, "--resume", *change)
        except (OSError, subprocess.CalledProcessError) as error:
            raise RunError(directory.cannot_start(run_dir, error)) from error
        _wait_until_resumed(run, launched)
        return cls(run_dir)

    @classmethod
    def resumable(cls, run_dir: Path) -> Run:
        """Return a run that can be resumed, with what its files say so far; raises as `resume`."""
        foreign.refuse(run_dir)
        run = cls.attach(run_dir)
        if (part := read_part(run_dir)) is not None:
            raise ValueError(
                tr(
                    "Run {id} is the part of a run of {head} that trained here. Resume that run there: "
                    "trainyard resume {run}",
                    id=run.id, head=part.head, run=part.run,
                )
            )
        run.spec().check_startable()
        if run.spec().script is not None:
            sentence = tr_noop(
                "Run {id} is a script, which Trainyard cannot resume. Start it again: trainyard again {id}"
            )
            raise ValueError(tr(sentence, id=run.id))
        run.catch_up()
        if not state_info(run.facts.state).can_resume:
            raise ValueError(run.facts.stopped_processes or lock.cannot_resume(run_dir, run.facts.state))
        if why := stopped.guard_sentence(run.dir, run.facts):  # it holds the run, and would end the new workers
            raise RunError(why)
        if not os.access(run_dir / EVENTS, os.W_OK):
            number = errno.EACCES if (run_dir / EVENTS).is_dir() else errno.ENOENT
            raise RunError(directory.cannot_write(run_dir, OSError(number, os.strerror(number), str(run_dir / EVENTS))))
        return run

    @classmethod
    def attach(cls, run_dir: Path) -> Run:
        """Follow a run that exists. Raises `ValueError` with a sentence when the directory is no run."""
        if not os.access(run_dir / SPEC_FILE, os.R_OK):
            sentence = tr_noop("{run_dir} is not a run directory that can be read: it has no readable {file}.")
            raise ValueError(tr(sentence, run_dir=run_dir, file=SPEC_FILE))
        return cls(run_dir)

    @property
    def id(self) -> str:
        """The name of the directory: the tag of every process of the run."""
        return self.dir.name

    @functools.cached_property
    def owner(self) -> str | None:
        """The user to whom the run belongs if that is another one; None for a run of one's own."""
        return owner_of_run(self.dir)

    def spec(self) -> RunSpec:
        """Return the spec. Raises `ValueError` with a sentence when it cannot be used."""
        return read_spec(self.dir)

    def poll(self) -> list[Event]:
        """Read new events, update `facts`, and return the events. Never blocks.

        A run that is over may be resumed by any process, the guard of a lost run records what it killed, and
        notifications may fail: such a run is read again when an event file of one of these has changed.
        """
        if state_info(self.facts.state).over and self._mark == self._current_mark():
            return []
        alive = self._supervisor_is_alive()  # before reading, so that its last events are read
        self._mark = self._current_mark()  # before reading, too
        events = self._log.read()
        self.facts = self._with_troubles(fold(self.facts, events))
        if state_info(self.facts.state).over:
            # Files that were read before the one with the last event may have new lines.
            more = self._log.read()
            self.facts = self._with_troubles(fold(self.facts, more))
            events += more
            if events and self.facts.state is RunState.LOST:  # the guard has recorded what it killed
                self.facts = replace(self.facts, error=self._how_lost())
        state = state_info(self.facts.state)
        if not events and not alive and not state.over and not state.waits:  # the queue can take up one that waits
            self.facts = self._lost()
        self._look_for_stopped_processes()
        return events

    def catch_up(self) -> list[Event]:
        """Read all events so far and return them. A run whose supervisor is gone is then known to be lost."""
        events: list[Event] = []
        while new := self.poll():
            events += new
        return events

    def slices(self) -> Iterator[list[Event]]:
        """Read what there is so far in slices of some milliseconds, and yield the events of each; some are empty.

        `catch_up` returns the rest then, and `facts` and events are those that `catch_up` alone had given.
        """
        for events in self._log.slices():
            self.facts = fold(self.facts, events)
            yield events
        events = self._log.read()  # files that were looked at before the one with the last event may have new lines
        self.facts = self._with_troubles(fold(self.facts, events))
        yield events

    def every_slice(self) -> Iterator[list[Event]]:
        """Yield the events that `catch_up` returns, in slices: those of a long run take gigabytes together."""
        yield from self.slices()
        yield self.catch_up()

    @property
    def bytes_read(self) -> int:
        """Bytes of all event files that were read."""
        return self._log.bytes_read

    def add_notice(self, text: str) -> None:
        """Add a sentence to the notices of `facts`, unless it is empty or one of them."""
        if text and text not in self.facts.notices:
            self.facts = replace(self.facts, notices=(*self.facts.notices, text))

    def _look_for_stopped_processes(self) -> None:
        """Update the sentences on stopped processes. Lists of runs do without."""
        if not self._reads_all:
            return
        lives = not state_info(self.facts.state).over
        if (there := foreign.there(self.dir)) is not None:
            found = there.stopped.get(self.id) if lives else None
        else:
            found = stopped.sentences(self.dir, self.facts) or None if lives and not self._is_elsewhere() else None
        if found != self.facts.stopped_processes:
            self.facts = replace(self.facts, stopped_processes=found)

    def request(self, name: str, content: str = "") -> None:
        """Request `stop`, `pause`, `save`, `force`, or what `content` says. Raises `RunError` if it cannot be written.

        `save` writes a checkpoint now; `force` forces a stop that is under way, or ends the waiting for the memory.
        """
        assert name in REQUESTS, name
        foreign.refuse(self.dir)
        control = self.dir / CONTROL
        try:
            write_within(control, name, content)  # a link could name the folder of another run
        except OSError as error:
            if self.dir.is_dir() and not control.is_dir():
                raise RunError(
                    tr(
                        "Run {id} cannot receive requests, since {control} is not there. Make that folder (mkdir), "
                        "then try again.",
                        id=self.id, control=control,
                    )
                ) from error
            raise RunError(directory.cannot_write(self.dir, error)) from error

    def log_end(self, max_bytes: int = 4000) -> str:
        """Return the last whole lines of the workers' output; of a single longer line, its end."""
        return last_lines(self.dir / LOG_FILE, max_bytes)

    def _current_mark(self) -> Mark:
        """Return sizes and times of the files that may get events after the end."""
        told = stat_of(f"{self.dir}/{EVENTS}/{paths.NOTIFICATION_EVENTS}")
        if foreign.is_copy(self.dir):
            return (*mark(self.dir), told, stat_of(str(self.dir)))  # its files arrive in any order
        return (told,) if self.facts.state is RunState.FINISHED else (*mark(self.dir), told)

    def _supervisor_is_alive(self) -> bool:
        if (there := foreign.there(self.dir)) is not None:
            return self.id not in there.lost  # while the connection is cut, as it was last seen
        known = self.facts.supervisor or self._coming_up
        if known is not None:
            # A launched process becomes the guard, which may be killed before its child, the supervisor, is named.
            is_named = self.facts.supervisor is not None
            return (
                self._is_elsewhere()
                or processes.is_alive(known)
                or (not is_named and self.dir.is_dir() and self._is_supervised())
            )
        with contextlib.suppress(OSError):
            age_s = time.time() - (self.dir / SPEC_FILE).stat().st_mtime
            return age_s < LAUNCH_S or (age_s < COMING_UP_S and self._is_supervised())
        return False

    def _is_supervised(self) -> bool:
        """Return whether a process with the command line of this run's supervisor is there."""
        return self.id in stopped.supervised_runs(self.dir.stat().st_uid)

    def _is_elsewhere(self) -> bool:
        """Return whether the run is on another machine or in another container, where its pids mean other processes."""
        here, host = processes.here(), self.facts.host
        if host is None or host == here:
            return False
        restarted = host.host == here.host and host.boot != here.boot
        return not restarted

    def _with_troubles(self, facts: RunFacts) -> RunFacts:
        """Add notices on files and lines that could not be read, each once."""
        troubles = [text for text in self._log.troubles if text not in self._troubles_reported]
        self._troubles_reported.update(troubles)
        count = self._log.garbage_lines
        if count > 2 * self._garbage_reported:  # not with each line, of which there may be one a second for days
            self._garbage_reported = count
            troubles.append(tr(SKIPPED_LINE if count == 1 else SKIPPED_LINES, count=count, folder=self.dir / EVENTS))
        return replace(facts, notices=(*facts.notices, *troubles)) if troubles else facts

    def _lost(self) -> RunFacts:
        ended = self.facts.latest or time.time()
        return replace(
            without_present(self.facts), state=RunState.LOST, error=self._how_lost(),
            history=(*self.facts.history, (ended, RunState.LOST)),
        )

    def _how_lost(self) -> str:
        if (there := foreign.there(self.dir)) is not None:
            return there.lost.get(self.id, tr(FOLDER_GONE, folder=self.dir))
        end = "\n".join(self.log_end(600).strip().splitlines()[-LAST_LINES:])
        if not self.dir.is_dir():
            what = tr(FOLDER_GONE, folder=self.dir)
        elif self.facts.supervisor is None and self._log.troubles:
            what = tr(UNREADABLE)
        elif self.facts.supervisor is None:
            what = tr(NEVER_STARTED)
        else:
            what = self._exited(self.facts.supervisor.pid)
        return join_sentences([what, join([tr(LAST_OF_LOG), end], "\n") if end else tr(NO_LOG)])

    def _exited(self, supervisor: int) -> str:
        """Return the sentence on the processes of a lost run. Lists of runs do without those: this reads `/proc`."""
        if not self._reads_all:
            return tr(EXITED, supervisor=supervisor)
        left = processes.tagged(self.id)
        if not left:
            return tr(NONE_LEFT, supervisor=supervisor)
        pids = join_names(first_names([str(each.pid) for each in left]))
        return tr(STILL_RUNNING, supervisor=supervisor, pids=pids)


def _wait_until_resumed(run: Run, launched: ProcessId | None) -> None:
    """Wait until a launched supervisor has resumed a run. Raises `RunError` when it does not."""
    deadline, starts, transitions = time.monotonic() + RESUMING_S, run.facts.starts, len(run.facts.history)
    while time.monotonic() < deadline:
        alive = launched is not None and processes.is_alive(launched)  # before reading, see `Run.poll`
        run.catch_up()
        facts = run.facts
        # Until the first transition, the run still looks as if it were over.
        if facts.starts > starts and launched in {facts.guard, facts.supervisor} and len(facts.history) > transitions:
            return
        if not alive:
            if not state_info(facts.state).over:
                raise RunError(
                    tr("Run {id} was resumed by another process at the same moment. Attach to it.", id=run.id)
                )
            lines = run.log_end().strip().splitlines()
            unknown = tr("Run {id} could not be resumed, and its log does not say why.", id=run.id)
            raise RunError(lines[-1] if lines else unknown)
        time.sleep(NAP_S)
    sentence = tr_noop("Run {id} was not resumed within {seconds:g} s. The end of its log may say why.")
    raise RunError(tr(sentence, id=run.id, seconds=RESUMING_S))


def mark(run_dir: Path) -> Mark:
    """Return the size and time of the supervisor's and the guard's event file: they change when a file does."""
    return tuple(stat_of(f"{run_dir}/{EVENTS}/{name}") for name in (SUPERVISOR_EVENTS, paths.GUARD_EVENTS))


def folders_mark(run_dir: Path) -> Mark:
    """Return sizes and times of the run's folders and marks: they change when a file there is replaced, or marked."""
    return stat_of(str(run_dir)), stat_of(f"{run_dir}/{EVENTS}"), stat_of(f"{run_dir}/{paths.MARKS_FILE}")


def stat_of(path: str) -> tuple[int, int] | None:
    """Return size and time of a file in bytes and nanoseconds; None if there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 (asked for by every tick of a window)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
