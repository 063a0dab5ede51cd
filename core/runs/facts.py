"""Fold the events of a run into its facts. `core.runs.states` has the states."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from core.language import tr_noop
from core.runs.software import read_software, read_source
from core.runs.states import TRANSITIONS, RunState, state_info
from core.runs.verdicts import read_release
from core.system.process_info import read_ended, whole_or_none
from core.system.processes import HostId, ProcessId
from core.text import MAX_NAMES, first_names, join_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from core.runs.software import Software, Source
    from core.runs.verdicts import Release
    from core.schema.events import Event
    from core.system.process_info import TerminatedProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """One training process of a run."""

    rank: int
    process: ProcessId
    devices: tuple[str, ...]
    """The ids of its devices; none for a worker that only coordinates."""
    role: str = "worker"
    """`worker`, or `chief` or `ps` in a parameter-server run, or `fetch` for one that fetches data before them."""
    exit_code: int | None = None
    """None while it runs; the negative number of the signal that ended it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalationStep:
    """A step of a stop that was taken."""

    time: float
    name: str
    """`asked`, `SIGINT`, `SIGTERM` or `SIGKILL`."""
    grace_s: float | None
    """Seconds until the next step follows; None for the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The amount of training, as rank 0 announced it."""

    epochs: int
    steps_per_epoch: int
    samples_per_epoch: int

    @property
    def steps(self) -> int:
        """Optimizer steps in the whole run."""
        return self.epochs * self.steps_per_epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """The progress that a script reports."""

    done: float
    total: float
    unit: str
    """`steps`, `epochs`, or the empty string if the script does not name the unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPhase:
    """What rank 0 does before its first step."""

    name: str
    """As in `core.worker.context.Context.enter_phase`."""
    since: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint that a worker has written; it may have been pruned since."""

    step: int
    name: str
    """The name of its folder below `checkpoints`."""
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
    """What the events of a run say about it, measurements excepted."""

    state: RunState = RunState.CREATED
    history: tuple[tuple[float, RunState], ...] = ()
    software: Software | None = None
    """None also for runs of earlier versions."""
    source: Source | None = None
    """None if the workload is in no repository, too."""
    supervisor: ProcessId | None = None
    guard: ProcessId | None = None
    """None also for runs of earlier versions."""
    host: HostId | None = None
    """The machine and the pid namespace of the run's processes."""
    workers: dict[int, WorkerRecord] = field(default_factory=dict)
    devices: dict[str, dict[str, Any]] = field(default_factory=dict)
    plan: Plan | None = None
    earlier_plan: Plan | None = None
    """The plan from before the run was resumed, until there is a new one."""
    phase: StartPhase | None = None
    """What the run does before its first step; None before any report of its workers and from the first step on."""
    progress: RunProgress | None = None
    """The progress of a script, which has no plan; None until it reports any."""
    step: int = 0
    """Optimizer steps reported so far."""
    checkpoint: Checkpoint | None = None
    """The last checkpoint that was written."""
    asked: str = ""
    """`pause` or `save` until the workers have answered that request; else the empty string."""
    starts: int = 0
    """How often the run was started: 1, plus 1 for each time it was resumed."""
    collected: int = 0
    """Number of events so far of the kinds of which every one is kept."""
    latest: float = 0.0
    """Unix seconds of the latest event so far."""
    stop_steps: tuple[EscalationStep, ...] = ()
    """The steps of the stop since the last start."""
    error: str | None = None
    """A sentence if the run failed or was lost."""
    traceback: str | None = None
    notices: tuple[str, ...] = ()
    """Sentences that a user should see although the run goes on."""
    unticked_device_uses: tuple[UntickedDeviceUse, ...] = ()
    """Uses of devices that were not ticked, since the run was last started; each sentence once."""
    waiting: str | None = None
    """A sentence on what the memory watch waits for; None unless it waits."""
    stalled: str | None = None
    """A sentence while the run is training but reports no step."""
    slowed: dict[str, str] = field(default_factory=dict)
    """By device id, a sentence while heat or a weak power supply slows the device down."""
    stopped_processes: str | None = None
    """Sentences while processes of the run are stopped (state T). No event has them: `Run.poll` looks for them."""
    releases: dict[str, Release] = field(default_factory=dict)
    """By device id, what became of its memory after the end."""
    ended_processes: tuple[TerminatedProcess, ...] = ()
    """Processes that outlived their worker or their supervisor, and were terminated."""
    ended_before_resume: tuple[TerminatedProcess, ...] = ()
    """Processes terminated while resuming; shown with the resumed part of the run."""

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


MAX_COLLECTED = 10_000
"""Events of the kinds in `_COLLECTED` that are folded. Runs have some hundred; a planted file may have millions."""
# What readers add to the facts is English, as what the run stored, and is translated with it.
TOO_MANY = tr_noop("The run has more than {count} events of its states and processes; the rest is missing.")
DAMAGED = tr_noop("An event of kind {kind!r} could not be read.")
ENDED_BEFORE = tr_noop(
    "A process of the run was still running and was terminated before the run was resumed: {processes}."
)
MANY_ENDED_BEFORE = tr_noop(
    "Processes of the run were still running and were terminated before the run was resumed: {processes}."
)
MAX_TEXT = 20_000
"""Characters of a text that are shown."""
ALL_ENDED = tr_noop("`trainyard show RUN --json` lists all of them.")
"""What follows if a sentence does not name all processes that were terminated."""


def fold(facts: RunFacts, events: Iterable[Event]) -> RunFacts:
    """Return the facts after `events`. Unknown kinds are ignored; an event that cannot be read becomes a notice."""
    latest, collected, step = facts.latest, facts.collected, facts.step
    for event in events:
        kind = event["kind"]
        if kind == "supervisor":  # only this reader uses `latest`
            facts = replace(facts, latest=latest)
        latest = max(latest, event["t"])
        reader = _READERS.get(kind)
        if reader is None:
            continue
        if step != facts.step and reader is not _metrics:
            facts = replace(facts, step=step)
        if kind in _COLLECTED:
            collected += 1
            if collected > MAX_COLLECTED:
                facts = (
                    _with_notice(facts, TOO_MANY.format(count=MAX_COLLECTED))
                    if collected == MAX_COLLECTED + 1
                    else facts
                )
                continue
        try:
            if reader is _metrics and facts.phase is None:  # only the step changes
                step = max(step, _last_step(event))
            else:
                facts = reader(facts, event)
                step = facts.step
        except (KeyError, TypeError, ValueError, OverflowError):
            facts = _with_notice(facts, DAMAGED.format(kind=kind))
    # Each `replace` copies all fields, and a run has thousands of batches: what each event changes is set once.
    is_new = (latest, collected, step) != (facts.latest, facts.collected, facts.step)
    return replace(facts, latest=latest, collected=collected, step=step) if is_new else facts


def _state(facts: RunFacts, event: Event) -> RunFacts:
    state, time = RunState(event["state"]), float(event["t"])
    if (facts.state, state) not in TRANSITIONS:
        raise ValueError(state)
    error, traceback = event.get("error", facts.error), event.get("traceback", facts.traceback)
    if not isinstance(error, (str, type(None))) or not isinstance(traceback, (str, type(None))):
        raise TypeError(event)
    return replace(
        facts, state=state, history=(*facts.history, (time, state)), error=_cut(error),
        traceback=_cut(traceback), asked=facts.asked if state_info(state).can_pause else "", waiting=None,
        stalled=None, phase=facts.phase if state_info(state).can_pause else None,
        slowed=facts.slowed if state is RunState.RUNNING else {},
    )  # fmt: skip


def without_present(facts: RunFacts) -> RunFacts:
    """Return the facts of a run that is over without those that hold only while it is supervised."""
    return replace(facts, phase=None, asked="", waiting=None, stalled=None, slowed={}, stopped_processes=None)


def _supervisor(facts: RunFacts, event: Event) -> RunFacts:
    if facts.supervisor is not None or state_info(facts.state).over:
        facts = _resumed(facts)
    host = HostId(**{name: str(event.get(name, "")) for name in ("host", "boot", "pid_namespace")})
    guard = _process(event["guard"]) if event.get("guard") else None
    return replace(facts, supervisor=_process(event), guard=guard, host=host, starts=facts.starts + 1)


def _resumed(facts: RunFacts) -> RunFacts:
    """Reset what concerns the part of the run before a resume. A part without an end was lost."""
    history = facts.history
    if not state_info(facts.state).over:
        history = (*history, (facts.latest, RunState.LOST))
    return replace(
        without_present(facts), state=history[-1][1], history=history, workers={}, plan=None,
        earlier_plan=facts.plan or facts.earlier_plan, stop_steps=(), error=None, traceback=None,
        notices=_ended_sentence(facts.ended_before_resume), unticked_device_uses=(),
        releases={}, ended_processes=facts.ended_before_resume, ended_before_resume=(),
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
    texts = [known.get(name) for name in ("device_kind", "label", "name", "pci_bus_id")]
    cores = known.get("cores") or []
    if not all(isinstance(text, (str, type(None))) for text in texts) or not isinstance(cores, list):
        raise TypeError(event)
    known |= {"memory_total_bytes": whole_or_none(known.get("memory_total_bytes")), "cores": [*map(int, cores)]}
    return replace(facts, devices={**facts.devices, str(event["id"]): known})


def _plan(facts: RunFacts, event: Event) -> RunFacts:
    counts = {name: int(event[name]) for name in ("epochs", "steps_per_epoch", "samples_per_epoch")}
    return replace(facts, plan=Plan(**counts), earlier_plan=None)


def _phase(facts: RunFacts, event: Event) -> RunFacts:
    if event["rank"] != 0:
        return facts
    return replace(facts, phase=StartPhase(name=str(event["name"]), since=float(event["t"])))


def _metrics(facts: RunFacts, event: Event) -> RunFacts:
    return replace(facts, step=max(facts.step, _last_step(event)), phase=None)


def _last_step(event: Event) -> int:
    return int(event["first"]) + max(map(len, event["values"].values())) - 1


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


def _stop_step(facts: RunFacts, event: Event) -> RunFacts:
    step = EscalationStep(time=float(event["t"]), name=str(event["name"]), grace_s=event.get("grace_s"))
    return replace(facts, stop_steps=(*facts.stop_steps, step))


def _notice(facts: RunFacts, event: Event) -> RunFacts:
    return _with_notice(facts, str(event["text"]))


def _unticked_device_use(facts: RunFacts, event: Event) -> RunFacts:
    pids = tuple(int(pid) for pid in event["pids"])
    use = UntickedDeviceUse(device_id=str(event["device"]), pids=pids, sentence=str(_cut(str(event["text"]))))
    known = facts.unticked_device_uses
    if any(each.sentence == use.sentence for each in known):
        return facts
    return replace(facts, unticked_device_uses=(*known, use))


def _waiting(facts: RunFacts, event: Event) -> RunFacts:
    return replace(facts, waiting=_cut(str(event["text"])))


def _stall(facts: RunFacts, event: Event) -> RunFacts:
    return replace(facts, stalled=_cut(str(event.get("text") or "") or None))


def _slowed(facts: RunFacts, event: Event) -> RunFacts:
    if event["device"] not in facts.devices:  # so that a planted file cannot name a million
        return facts
    others = {device: text for device, text in facts.slowed.items() if device != event["device"]}
    text = str(_cut(str(event["text"])))
    return replace(facts, slowed={**others, str(event["device"]): text} if text else others)


def _release(facts: RunFacts, event: Event) -> RunFacts:
    found = read_release(event)
    return replace(facts, releases={**facts.releases, found.device_id: found})


def _ended(facts: RunFacts, event: Event) -> RunFacts:
    ended = read_ended(event)
    facts = replace(facts, ended_processes=(*facts.ended_processes, *ended))
    if event.get("before_leg") is not True:
        return facts
    facts = replace(facts, ended_before_resume=(*facts.ended_before_resume, *ended))
    return replace(facts, notices=(*facts.notices, *_ended_sentence(ended)))


def _ended_sentence(ended: tuple[TerminatedProcess, ...]) -> tuple[str, ...]:
    """Return a notice on processes terminated while resuming; nothing if there were none."""
    if not ended:
        return ()
    names = first_names([f"pid {each.pid} {each.name or ''}".strip() + f" ({each.signal})" for each in ended])
    text = (ENDED_BEFORE if len(ended) == 1 else MANY_ENDED_BEFORE).format(processes=join_names(names))
    return (f"{text} {ALL_ENDED}" if len(ended) > MAX_NAMES else text,)


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def _with_notice(facts: RunFacts, text: str) -> RunFacts:
    """Return the facts with one more notice, unless it is there already."""
    text = str(_cut(text))
    return facts if text in facts.notices else replace(facts, notices=(*facts.notices, text))


def _software(facts: RunFacts, event: Event) -> RunFacts:
    return replace(facts, software=read_software(event))


def _source(facts: RunFacts, event: Event) -> RunFacts:
    return replace(facts, source=read_source(event))


def _process(event: Event) -> ProcessId:
    return ProcessId(pid=int(event["pid"]), created=float(event["created"]))


_READERS: dict[str, Callable[[RunFacts, Event], RunFacts]] = {
    "state": _state,
    "supervisor": _supervisor,
    "worker": _worker,
    "worker_exit": _worker_exit,
    "device": _device,
    "phase": _phase,
    "plan": _plan,
    "metrics": _metrics,
    "progress": _progress,
    "rewind": _rewind,
    "checkpoint": _checkpoint,
    "request": _request,
    "rung": _stop_step,
    "notice": _notice,
    "stray": _unticked_device_use,
    "waiting": _waiting,
    "stall": _stall,
    "slowed": _slowed,
    "release": _release,
    "ended": _ended,
    "software": _software,
    "source": _source,
}
_COLLECTED = frozenset({
    "state", "supervisor", "worker", "worker_exit", "device", "rung", "notice", "stray", "release",
    "ended",
})  # fmt: skip
"""Kinds of which every event is kept: each makes the facts larger."""
