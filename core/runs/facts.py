"""What is known of a run: the fold of its events into facts. Its states and transitions are in `core.runs.states`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from core.runs.states import TRANSITIONS, RunState, state_info
from core.runs.verdicts import read_release
from core.system.process_info import read_ended
from core.system.processes import HostId, ProcessId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from core.runs.verdicts import Release
    from core.schema.events import Event
    from core.system.process_info import TerminatedProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """One training process of a run."""

    rank: int
    process: ProcessId
    devices: tuple[str, ...]
    """Its own; none for one that only coordinates."""
    role: str = "worker"
    """`worker`; in a parameter-server run also `chief` and `ps`."""
    exit_code: int | None = None
    """None while it runs; negative for a signal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalationStep:
    """One step of the stop ladder as it was taken."""

    time: float
    name: str
    """`asked`, `SIGINT`, `SIGTERM` or `SIGKILL`."""
    grace_s: float | None
    """How long until the next follows; None for the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much there is to train, as rank 0 announced it."""

    epochs: int
    steps_per_epoch: int
    samples_per_epoch: int

    @property
    def steps(self) -> int:
        """Optimizer steps in the whole run."""
        return self.epochs * self.steps_per_epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """How far a script says that it is."""

    done: float
    total: float
    unit: str
    """`steps`, `epochs`, or no text where it does not say what it counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint as the worker announced it; it may have been pruned since."""

    step: int
    name: str
    """Its folder below `checkpoints`."""
    time: float
    reason: str
    """`asked`, `pause`, `epoch`, `end`, ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UntickedDeviceUse:
    """Processes of a run on one device that was not ticked."""

    device_id: str
    pids: tuple[int, ...]
    sentence: str

    def to_event(self) -> dict[str, object]:
        """Return the fields of an event of the kind `stray`."""
        return {"device": self.device_id, "pids": list(self.pids), "text": self.sentence}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """All that a run's events say about it, measurements aside."""

    state: RunState = RunState.CREATED
    history: tuple[tuple[float, RunState], ...] = ()
    supervisor: ProcessId | None = None
    place: HostId | None = None
    """Where the run's processes are."""
    workers: dict[int, WorkerRecord] = field(default_factory=dict)
    devices: dict[str, dict[str, Any]] = field(default_factory=dict)
    plan: Plan | None = None
    progress: RunProgress | None = None
    """Of a script, in place of a plan; None while it does not say."""
    step: int = 0
    """Optimizer steps done, as far as reported."""
    checkpoint: Checkpoint | None = None
    """The last that was written."""
    asked: str = ""
    """`pause` or `save`, while the workers have not answered it yet."""
    legs: int = 0
    """How often the run was started: 1, and 1 more for each time it was resumed."""
    latest: float = 0.0
    """Unix seconds of the latest event so far."""
    rungs: tuple[EscalationStep, ...] = ()
    error: str | None = None
    """A sentence, when the run failed or was lost."""
    traceback: str | None = None
    notices: tuple[str, ...] = ()
    """Sentences that a user should see although the run goes on."""
    unticked_device_uses: tuple[UntickedDeviceUse, ...] = ()
    """Uses of devices that were not ticked, since the run was last started; each sentence once."""
    waiting: str | None = None
    """While it is releasing, what is waited for: a sentence; None for what takes no time."""
    stalled: str | None = None
    """While it runs and no step is reported: a sentence."""
    releases: dict[str, Release] = field(default_factory=dict)
    """By device id, what became of its memory after the end."""
    ended_processes: tuple[TerminatedProcess, ...] = ()
    """What outlived its worker, or its supervisor, and had to be ended. (`ended` is a time.)"""
    cleared: tuple[TerminatedProcess, ...] = ()
    """Of these, what was ended so that the next leg can begin: it is told of that one."""

    @property
    def started(self) -> float | None:
        """Unix seconds of the first transition."""
        return self.history[0][0] if self.history else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences that a user should see although the run goes on: uses of unticked devices, then notices."""
        return (*(use.sentence for use in self.unticked_device_uses), *self.notices)

    @property
    def ended(self) -> float | None:
        """Unix seconds at which the run was over; None before that."""
        return self.history[-1][0] if self.history and state_info(self.state).over else None


def fold(facts: RunFacts, events: Iterable[Event]) -> RunFacts:
    """What is known after `events`. Unknown kinds change nothing; events that cannot be read become a notice."""
    latest = facts.latest
    for event in events:
        if event["kind"] == "supervisor":  # the one reader that asks for it
            facts = replace(facts, latest=latest)
        latest = max(latest, float(event["t"]))
        reader = _READERS.get(event["kind"])
        if reader is None:
            continue
        try:
            facts = reader(facts, event)
        except (KeyError, TypeError, ValueError, OverflowError):
            facts = _noticed(facts, f"An event of kind {event['kind']!r} could not be read.")
    return facts if facts.latest == latest else replace(facts, latest=latest)


def _state(facts: RunFacts, event: Event) -> RunFacts:
    state, time = RunState(event["state"]), float(event["t"])
    if (facts.state, state) not in TRANSITIONS:
        raise ValueError(state)
    error, traceback = event.get("error", facts.error), event.get("traceback", facts.traceback)
    if not isinstance(error, (str, type(None))) or not isinstance(traceback, (str, type(None))):
        raise TypeError(event)
    return replace(
        facts, state=state, history=(*facts.history, (time, state)), error=error,
        traceback=traceback, asked=facts.asked if state_info(state).can_pause else "", waiting=None,
        stalled=None,
    )  # fmt: skip


def _supervisor(facts: RunFacts, event: Event) -> RunFacts:
    if facts.supervisor is not None or state_info(facts.state).over:
        facts = _new_leg(facts)
    place = HostId(**{name: str(event.get(name, "")) for name in ("host", "boot", "pid_namespace")})
    return replace(facts, supervisor=_process(event), place=place, legs=facts.legs + 1)


def _new_leg(facts: RunFacts) -> RunFacts:
    """The run is resumed: what told of the leg before is gone. One that had no end was lost."""
    history = facts.history
    if not state_info(facts.state).over:
        history = (*history, (facts.latest, RunState.LOST))
    return replace(
        facts, state=history[-1][1], history=history, workers={}, plan=None, rungs=(), error=None, traceback=None,
        notices=_words_on(facts.cleared), unticked_device_uses=(), asked="", waiting=None, releases={},
        ended_processes=facts.cleared, cleared=(),
    )  # fmt: skip


def _worker(facts: RunFacts, event: Event) -> RunFacts:
    worker = WorkerRecord(
        rank=int(event["rank"]), process=_process(event), devices=tuple(event["devices"]),
        role=str(event.get("role", "worker")),
    )  # fmt: skip
    return replace(facts, workers={**facts.workers, worker.rank: worker})


def _worker_exit(facts: RunFacts, event: Event) -> RunFacts:
    worker = replace(facts.workers[int(event["rank"])], exit_code=int(event["exit_code"]))
    return replace(facts, workers={**facts.workers, worker.rank: worker})


def _device(facts: RunFacts, event: Event) -> RunFacts:
    known = {name: value for name, value in event.items() if name not in {"t", "kind"}}
    return replace(facts, devices={**facts.devices, str(event["id"]): known})


def _plan(facts: RunFacts, event: Event) -> RunFacts:
    plan = Plan(
        epochs=int(event["epochs"]),
        steps_per_epoch=int(event["steps_per_epoch"]),
        samples_per_epoch=int(event["samples_per_epoch"]),
    )
    return replace(facts, plan=plan)


def _metrics(facts: RunFacts, event: Event) -> RunFacts:
    last = int(event["first"]) + max(len(values) for values in event["values"].values()) - 1
    return replace(facts, step=max(facts.step, last))


def _progress(facts: RunFacts, event: Event) -> RunFacts:
    done, total = float(event["done"]), float(event["total"])
    if not (math.isfinite(done) and math.isfinite(total)):
        raise ValueError(event)
    return replace(facts, progress=RunProgress(done=done, total=total, unit=str(event.get("unit", ""))))


def _rewind(facts: RunFacts, event: Event) -> RunFacts:
    return replace(facts, step=int(event["step"]))


def _checkpoint(facts: RunFacts, event: Event) -> RunFacts:
    written = Checkpoint(
        step=int(event["step"]), name=str(event["name"]), time=float(event["t"]), reason=str(event["reason"])
    )
    return replace(facts, checkpoint=written)


def _request(facts: RunFacts, event: Event) -> RunFacts:
    return replace(facts, asked=str(event["asked"]))


def _rung(facts: RunFacts, event: Event) -> RunFacts:
    rung = EscalationStep(time=float(event["t"]), name=str(event["name"]), grace_s=event.get("grace_s"))
    return replace(facts, rungs=(*facts.rungs, rung))


def _notice(facts: RunFacts, event: Event) -> RunFacts:
    return _noticed(facts, str(event["text"]))


def _unticked_device_use(facts: RunFacts, event: Event) -> RunFacts:
    pids = tuple(int(pid) for pid in event["pids"])
    use = UntickedDeviceUse(device_id=str(event["device"]), pids=pids, sentence=str(event["text"]))
    known = facts.unticked_device_uses
    if any(each.sentence == use.sentence for each in known):
        return facts
    return replace(facts, unticked_device_uses=(*known, use))


def _waiting(facts: RunFacts, event: Event) -> RunFacts:
    return replace(facts, waiting=str(event["text"]))


def _stall(facts: RunFacts, event: Event) -> RunFacts:
    return replace(facts, stalled=str(event.get("text") or "") or None)


def _release(facts: RunFacts, event: Event) -> RunFacts:
    found = read_release(event)
    return replace(facts, releases={**facts.releases, found.device_id: found})


def _ended(facts: RunFacts, event: Event) -> RunFacts:
    ended = read_ended(event)
    facts = replace(facts, ended_processes=(*facts.ended_processes, *ended))
    if event.get("before_leg") is not True:
        return facts
    facts = replace(facts, cleared=(*facts.cleared, *ended))
    return replace(facts, notices=(*facts.notices, *_words_on(ended)))


def _words_on(cleared: tuple[TerminatedProcess, ...]) -> tuple[str, ...]:
    """A notice on what was ended before a leg began; none when there was nothing."""
    if not cleared:
        return ()
    what = "A process that was left of the run was" if len(cleared) == 1 else "Processes that were left of the run were"
    who = ", ".join(f"pid {each.pid} {each.name or ''}".strip() + f" ({each.signal})" for each in cleared)
    return (f"{what} ended before it was resumed: {who}.",)


def _noticed(facts: RunFacts, text: str) -> RunFacts:
    """With a notice more; what was said once is not said again."""
    return facts if text in facts.notices else replace(facts, notices=(*facts.notices, text))


def _process(event: Event) -> ProcessId:
    return ProcessId(pid=int(event["pid"]), created=float(event["created"]))


_READERS: dict[str, Callable[[RunFacts, Event], RunFacts]] = {
    "state": _state,
    "supervisor": _supervisor,
    "worker": _worker,
    "worker_exit": _worker_exit,
    "device": _device,
    "plan": _plan,
    "metrics": _metrics,
    "progress": _progress,
    "rewind": _rewind,
    "checkpoint": _checkpoint,
    "request": _request,
    "rung": _rung,
    "notice": _notice,
    "stray": _unticked_device_use,
    "waiting": _waiting,
    "stall": _stall,
    "release": _release,
    "ended": _ended,
}
