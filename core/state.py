"""The life of a run: its states, the legal transitions, and the fold of events into what is known of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from core.events import Event


class RunState(Enum):
    """The values are what event logs and `--json` carry."""

    CREATED = "created"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    RELEASING = "releasing"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """What a state means to people, and what they may do in it."""

    state: RunState
    label: str
    sentence: str
    colour: str
    """A role of the theme: `accent`, `good`, `warn`, `bad` or `muted`."""
    can_stop: bool = False
    can_force: bool = False
    over: bool = False


STATES = (
    StateRow(state=RunState.CREATED, label="Created", colour="muted", can_stop=True,
             sentence="The run has been written down; its supervisor is coming up."),
    StateRow(state=RunState.STARTING, label="Starting", colour="accent", can_stop=True,
             sentence="The workers are loading their framework and the recipe."),
    StateRow(state=RunState.RUNNING, label="Running", colour="accent", can_stop=True,
             sentence="Training is under way."),
    StateRow(state=RunState.STOPPING, label="Stopping", colour="warn", can_force=True,
             sentence="The workers were asked to stop; they are made to if they do not."),
    StateRow(state=RunState.RELEASING, label="Releasing", colour="warn",
             sentence="Training has ended; what it left behind is being looked for."),
    StateRow(state=RunState.FINISHED, label="Finished", colour="good", over=True,
             sentence="Training went through to its end."),
    StateRow(state=RunState.STOPPED, label="Stopped", colour="warn", over=True,
             sentence="Training was stopped on request."),
    StateRow(state=RunState.FAILED, label="Failed", colour="bad", over=True,
             sentence="Training ended with an error."),
    StateRow(state=RunState.LOST, label="Lost", colour="bad", over=True,
             sentence="The run's supervisor ended without a word; its workers ended with it."),
)  # fmt: skip

TRANSITIONS = frozenset({
    (RunState.CREATED, RunState.STARTING),
    (RunState.STARTING, RunState.RUNNING),
    (RunState.STARTING, RunState.STOPPING),
    (RunState.STARTING, RunState.RELEASING),
    (RunState.RUNNING, RunState.STOPPING),
    (RunState.RUNNING, RunState.RELEASING),
    (RunState.STOPPING, RunState.RELEASING),
    (RunState.RELEASING, RunState.FINISHED),
    (RunState.RELEASING, RunState.STOPPED),
    (RunState.RELEASING, RunState.FAILED),
    # A run whose workers could not be started has nothing to release.
    (RunState.CREATED, RunState.FAILED),
    (RunState.STARTING, RunState.FAILED),
})  # fmt: skip
"""Every transition that a log may hold. LOST is concluded by readers and never written."""

_ROWS = {row.state: row for row in STATES}


def row(state: RunState) -> StateRow:
    """The table's row of a state."""
    return _ROWS[state]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A process for good: a pid alone may come to name another process."""

    pid: int
    created: float
    """Unix seconds, as the operating system tells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where pids mean what they say: a machine, since it was started, and a namespace of process ids on it."""

    host: str
    boot: str
    pid_namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One training process of a run."""

    rank: int
    process: ProcessId
    devices: tuple[str, ...]
    exit_code: int | None = None
    """None while it runs; negative for a signal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
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
class Facts:
    """All that a run's events say about it, measurements aside."""

    state: RunState = RunState.CREATED
    history: tuple[tuple[float, RunState], ...] = ()
    supervisor: ProcessId | None = None
    place: Place | None = None
    """Where the run's processes are."""
    workers: dict[int, Worker] = field(default_factory=dict)
    devices: dict[str, dict[str, Any]] = field(default_factory=dict)
    plan: Plan | None = None
    step: int = 0
    """Optimizer steps done, as far as reported."""
    rungs: tuple[Rung, ...] = ()
    error: str | None = None
    """A sentence, when the run failed or was lost."""
    traceback: str | None = None
    notices: tuple[str, ...] = ()
    """Sentences that a user should see although the run goes on."""

    @property
    def started(self) -> float | None:
        """Unix seconds of the first transition."""
        return self.history[0][0] if self.history else None

    @property
    def ended(self) -> float | None:
        """Unix seconds at which the run was over; None before that."""
        return self.history[-1][0] if self.history and row(self.state).over else None


def fold(facts: Facts, events: Iterable[Event]) -> Facts:
    """What is known after `events`. Unknown kinds change nothing; events that cannot be read become a notice."""
    for event in events:
        reader = _READERS.get(event["kind"])
        if reader is None:
            continue
        try:
            facts = reader(facts, event)
        except (KeyError, TypeError, ValueError, OverflowError):
            facts = _noticed(facts, f"An event of kind {event['kind']!r} could not be read.")
    return facts


def _state(facts: Facts, event: Event) -> Facts:
    state, time = RunState(event["state"]), float(event["t"])
    if (facts.state, state) not in TRANSITIONS:
        raise ValueError(state)
    error, traceback = event.get("error", facts.error), event.get("traceback", facts.traceback)
    if not isinstance(error, (str, type(None))) or not isinstance(traceback, (str, type(None))):
        raise TypeError(event)
    return replace(
        facts, state=state, history=(*facts.history, (time, state)), error=error,
        traceback=traceback,
    )  # fmt: skip


def _supervisor(facts: Facts, event: Event) -> Facts:
    place = Place(**{name: str(event.get(name, "")) for name in ("host", "boot", "pid_namespace")})
    return replace(facts, supervisor=_process(event), place=place)


def _worker(facts: Facts, event: Event) -> Facts:
    worker = Worker(rank=int(event["rank"]), process=_process(event), devices=tuple(event["devices"]))
    return replace(facts, workers={**facts.workers, worker.rank: worker})


def _worker_exit(facts: Facts, event: Event) -> Facts:
    worker = replace(facts.workers[int(event["rank"])], exit_code=int(event["exit_code"]))
    return replace(facts, workers={**facts.workers, worker.rank: worker})


def _device(facts: Facts, event: Event) -> Facts:
    known = {name: value for name, value in event.items() if name not in {"t", "kind"}}
    return replace(facts, devices={**facts.devices, str(event["id"]): known})


def _plan(facts: Facts, event: Event) -> Facts:
    plan = Plan(
        epochs=int(event["epochs"]),
        steps_per_epoch=int(event["steps_per_epoch"]),
        samples_per_epoch=int(event["samples_per_epoch"]),
    )
    return replace(facts, plan=plan)


def _metrics(facts: Facts, event: Event) -> Facts:
    last = int(event["first"]) + max(len(values) for values in event["values"].values()) - 1
    return replace(facts, step=max(facts.step, last))


def _rung(facts: Facts, event: Event) -> Facts:
    rung = Rung(time=float(event["t"]), name=str(event["name"]), grace_s=event.get("grace_s"))
    return replace(facts, rungs=(*facts.rungs, rung))


def _notice(facts: Facts, event: Event) -> Facts:
    return _noticed(facts, str(event["text"]))


def _noticed(facts: Facts, text: str) -> Facts:
    """With a notice more; what was said once is not said again."""
    return facts if text in facts.notices else replace(facts, notices=(*facts.notices, text))


def _process(event: Event) -> ProcessId:
    return ProcessId(pid=int(event["pid"]), created=float(event["created"]))


_READERS: dict[str, Callable[[Facts, Event], Facts]] = {
    "state": _state,
    "supervisor": _supervisor,
    "worker": _worker,
    "worker_exit": _worker_exit,
    "device": _device,
    "plan": _plan,
    "metrics": _metrics,
    "rung": _rung,
    "notice": _notice,
}
