"""The run that the window shows, and everything that was measured in it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from core.diagnosis.timeline import Timeline
from core.history.summary import RunLoss
from core.language import tr, tr_noop
from core.queue.control import cancel
from core.runs.facts import RunFacts, state_info
from core.runs.run import Run
from core.schema.event_kinds import Checkpoint
from core.schema.spec import RunSpec
from core.series import long_runs
from core.series.long_runs import events_size
from core.series.run_series import RunSeries, loss_of
from core.series.series import Series
from gui.base.jobs import Jobs, keep_as_it_is
from gui.runs.progress import ProgressView, ScriptProgress, has_ended, progress_view, took_s
from gui.runs.reading import (
    AT_ONCE_BYTES,
    Identity,
    ReadRun,
    RunMemory,
    RunOpening,
    identity_of,
    siblings,
    take_in,
    unread,
)
from gui.runs.words import RunSnapshot

ANSWER_S = 2.0
"""Seconds within which the supervisor records a request of this window; until then the request counts as pending."""
NO_FACTS = RunFacts()  # made once: they are asked for several times a poll
GONE = tr_noop(
    "The folder of this run was removed or renamed: {folder}. The values that were read before are still shown."
)


class RunSession(QObject):
    """At most one attached run; `poll` brings it up to date."""

    attached = Signal()
    """Another run, or none, is shown from now on."""
    started = Signal(object)
    """The window has started this `Run`, which is shown now."""
    end_asked = Signal()
    """The user of this window has asked the run to end: to stop, to pause, or at once."""
    changed = Signal()
    """There are new facts."""
    ended = Signal()
    """The run that is shown has just ended."""
    resuming_changed = Signal()
    """`is_resuming` may be another."""
    read_on = Signal(float)
    """The share of a long run that was read: 0.0 once there is a sketch, 1.0 when it is read completely."""

    def __init__(self, request: Callable[[Run, str], None] | None = None) -> None:
        """`request`: asks a run for something; None for the runs of this machine (`ask_run`)."""
        super().__init__()
        self._request = request or ask_run
        self.run: Run | None = None
        self.run_series: RunSeries | None = None
        self.timeline: Timeline | None = None
        """What happened in the run."""
        self.spec: RunSpec | None = None
        self.spec_problem: str | None = None
        """Why the spec of the run cannot be read, such as one of a newer version: a sentence, or None."""
        self._resuming: Path | None = None
        """The run that is being resumed, which may be another one."""
        self.stop_asked: float | None = None
        """When this window requested a stop, in seconds of `time.monotonic()`."""
        self._last_request: tuple[str, float, Checkpoint | None] | None = None
        """The last request to pause or save, when it was made, and the newest checkpoint before."""
        self._strides = ScriptProgress()
        self._identity: Identity | None = None
        """Identifies the folder of the run, also after it was renamed; None if it does not exist."""
        self._memory = RunMemory()
        self._to_keep = False
        """Whether the run is to be kept on disk, once it is over and read completely: it is long, and new there."""
        self._keeping = Jobs(self, "run-cache")
        self.opening: RunOpening | None = None
        """The reading of a long run that is under way; None once the run is read completely."""

    @property
    def facts(self) -> RunFacts:
        """The facts of the run, as far as they are known; empty ones without a run."""
        if self.opening is not None:
            return self.opening.facts
        return self.run.facts if self.run else NO_FACTS

    @property
    def live(self) -> bool:
        """Whether there is a run and it is not over."""
        return self.run is not None and state_info(self.facts.state).live

    @property
    def is_script(self) -> bool:
        """Whether it is a program of the user's own."""
        return self.spec is not None and self.spec.script is not None

    @property
    def asked(self) -> str:
        """`pause` or `save` while that request is pending; else the empty string."""
        if self.facts.asked or self._last_request is None:
            return self.facts.asked
        what, when, before = self._last_request
        return what if time.monotonic() - when < ANSWER_S and self.facts.checkpoint == before else ""

    def snapshot(self) -> RunSnapshot | None:
        """Return what is known of the run at this moment; None without a run."""
        if self.run is None:
            return None
        return RunSnapshot(
            id=self.run.id,
            facts=self.facts,
            owner=self.run.owner or "",
            spec=self.spec,
            spec_problem=self.spec_problem,
            progress=self.progress(),
            took_s=took_s(self.facts, self._losses) if has_ended(self.facts) else None,
            loss=self._loss,
            last_loss=self._losses.last if self._losses is not None else None,
            asked=self.asked,
            stop_asked=self.stop_asked,
            diagnosis=self.run_series.step_times.diagnosis(self.facts) if self.run_series else None,
        )

    def attach(self, run: Run) -> None:
        """Show this run from now on. A long one that is new to this window is shown as a sketch until it is read."""
        self._put_away()
        self._identity = identity_of(run.dir)
        self.spec, self.spec_problem = None, None
        self._forget_requests()
        size = events_size(run.dir)
        read = self._memory.take(run.dir, self._identity) or self._kept_on_disk(run.dir, size)
        self._to_keep = size > AT_ONCE_BYTES and read is None
        self.run = read.run if read is not None else run
        self._read_spec(self.run)
        read = read or unread(self.run, self.spec)
        self.run_series, self.timeline, self._strides = read.run_series, read.timeline, read.strides
        if self._to_keep:
            self.opening = RunOpening(read, size, self)
            self.opening.read_on.connect(self._follow_opening)
        else:
            take_in(read, self.run.catch_up())
        self.attached.emit()
        self.changed.emit()

    def show_started(self, run: Run) -> None:
        """Show a run that the window has started."""
        self.attach(run)
        self.started.emit(run)

    def attach_to(self, run_dir: Path) -> None:
        """Show the run in this directory. Raises `ValueError` with a sentence if there is none."""
        if self.run is None or self.run.dir != run_dir:
            self.attach(Run.attach(run_dir))

    def reload(self, run_dir: Path) -> None:
        """Read the run in this directory from its beginning again, since its curves were replaced."""
        self._memory.take(run_dir, identity_of(run_dir))
        if self.run is not None and self.run.dir == run_dir:
            self._identity = None  # so that it is not kept as it was
            self.attach(Run.attach(run_dir))

    def reread_spec(self, run_dir: Path) -> None:
        """Read the spec again, if this run is shown: its name has changed."""
        if self.run is not None and self.run.dir == run_dir:
            self._read_spec(self.run)
            self.changed.emit()

    def leave(self, run_dir: Path) -> None:
        """Show no run from now on, if this one is shown."""
        if self.run is not None and self.run.dir == run_dir:
            self.show_none()

    def show_none(self) -> None:
        """Show no run from now on."""
        if self.run is None:
            return
        self._put_away()
        self.run = self.run_series = self.timeline = self.spec = self.spec_problem = None
        self._strides = ScriptProgress()
        self._forget_requests()
        self.attached.emit()
        self.changed.emit()

    def poll(self) -> None:
        """Read what is new. A run whose folder was renamed is followed to its new name."""
        if self.run is None or self.run_series is None or self.opening is not None:
            return
        known, self._identity = self._identity, identity_of(self.run.dir)  # a resume may have written the spec again
        if self._identity != known and self._identity is not None:
            self._read_spec(self.run)
        if self._identity is None and known is not None:  # search once: a folder that was removed does not come back
            moved = next((each for each in siblings(self.run.dir) if identity_of(each) == known), None)
            if moved is not None:
                self.attach(Run(moved))
                return
        before = self.run.facts
        take_in(self._read_run(), self.run.poll())
        if self._identity is None and known is not None:
            self.run.add_notice(tr(GONE, folder=self.run.dir))
        self._keep_on_disk()
        if self.run.facts.plan is not before.plan:
            self._read_spec(self.run)  # its settings may have changed
        if self.run.facts is not before:
            if self.run.facts.starts != before.starts:  # it was resumed: the requests were to the part before
                self._forget_requests()
            self.changed.emit()
            if state_info(self.run.facts.state).over and not state_info(before.state).over:
                self.ended.emit()

    def pause(self) -> None:
        """Request that the run saves, ends and frees its devices. Raises `RunError` with a sentence."""
        self._ask("pause")
        self.end_asked.emit()

    def save(self) -> None:
        """Request a checkpoint. Raises `RunError` with a sentence."""
        self._ask("save")

    def stop(self) -> None:
        """Request a stop. Raises `RunError` with a sentence."""
        if self.run is not None:
            self._request(self.run, "stop")
            self.stop_asked = time.monotonic()
            self.end_asked.emit()
            self.changed.emit()

    def force(self) -> None:
        """Force a stop that is under way, or end the memory watch. Raises `RunError` with a sentence."""
        if self.run is not None:
            self._request(self.run, "force")
            self.end_asked.emit()

    def progress(self) -> ProgressView | None:
        """Return the progress of the run; None until its plan is known."""
        return progress_view(self.facts, self._losses, time.time(), self._strides)

    @property
    def _loss(self) -> RunLoss | None:
        """The loss of a run whose training has ended; None until all of it is read."""
        is_known = self.run_series is not None and self.opening is None and has_ended(self.facts)
        return loss_of(self.run_series, self.facts) if is_known and self.run_series is not None else None

    @property
    def _losses(self) -> Series | None:
        return self.run_series.metrics.get("loss") if self.run_series else None

    def memory_now(self) -> dict[str, float]:
        """Return the bytes in use by device id, as the live run last read them; nothing for a run that is over."""
        if self.run_series is None or not self.live:
            return {}
        latest = {device: series.last for device, series in self.run_series.memory.items()}
        return {device: value for device, value in latest.items() if value is not None and math.isfinite(value)}

    def _put_away(self) -> None:
        """Keep the shown run in memory. One that is not read to its end is forgotten."""
        if self.opening is not None:
            self.opening.stop()
            self.opening = None
            self.read_on.emit(1.0)
        elif self.run and self.run_series and self.timeline and self._identity is not None:
            self._memory.keep(self._identity, self._read_run())
            self._keep_on_disk()

    def _kept_on_disk(self, run_dir: Path, size: int) -> ReadRun | None:
        """Return a long run that was read before; None if it was not, or has much more events now."""
        if size <= AT_ONCE_BYTES:
            return None
        read = long_runs.load(run_dir)
        return read if isinstance(read, ReadRun) and size - read.run.bytes_read <= AT_ONCE_BYTES else None

    def _keep_on_disk(self) -> None:
        """Write a long run that is over to disk, in the background. Without room there, it is read again next time."""
        if not self._to_keep or self.live or self.run is None or self._keeping.busy:
            return
        self._to_keep = False
        packed = long_runs.pack(self.run, self._read_run())
        if packed is not None:
            self._keeping.start(packed.write, keep_as_it_is, keep_as_it_is)

    def _read_run(self) -> ReadRun:
        assert self.run is not None
        assert self.run_series is not None
        assert self.timeline is not None
        return ReadRun(run=self.run, run_series=self.run_series, timeline=self.timeline, strides=self._strides)

    def _follow_opening(self, share: float) -> None:
        """Show the sketch of a long run, how much of it was read, and then the whole run."""
        if share == 1.0:
            self.opening = None
        self.read_on.emit(share)
        if share in {0.0, 1.0}:
            self.changed.emit()

    def _ask(self, what: str) -> None:
        if self.run is not None:
            self._request(self.run, what)
            self._last_request = (what, time.monotonic(), self.facts.checkpoint)
            self.changed.emit()

    def set_resuming(self, run_dir: Path | None) -> None:
        """Note which run is being resumed; None for none."""
        if run_dir != self._resuming:
            self._resuming = run_dir
            self.resuming_changed.emit()

    @property
    def is_resuming(self) -> bool:
        """Whether the run is being resumed."""
        return self.run is not None and self.run.dir == self._resuming

    def take_requests(self, former: RunSession) -> None:
        """Wait for the same answers of the run as another session did."""
        self.stop_asked, self._last_request = former.stop_asked, former._last_request

    def _forget_requests(self) -> None:
        self.stop_asked, self._last_request = None, None

    def _read_spec(self, run: Run) -> None:
        try:
            self.spec = run.spec()
        except ValueError as error:
            self.spec_problem = str(error)


def ask_run(run: Run, name: str) -> None:
    """Ask a run of this machine for something. A queued run that is to stop leaves the queue. Raises `RunError`."""
    if name == "stop" and state_info(run.facts.state).waits:
        cancel(run.dir)
    else:
        run.request(name)
