"""The states of a run, and its facts: what its events say about it, measurements excepted. `core.runs.fold` makes them.

Among them are the verdicts of the memory watch, which part of the model is on which device, and the Python, the
packages and the commit that the run was trained with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from core.language import tr, tr_noop, tr_plural
from core.schema import event_kinds as kinds
from core.schema.event_kinds import ModelPart, Release, Verdict
from core.system.processes import HostId, ProcessId
from core.text import disk, join_names


class RunState(Enum):
    """The values are what event logs and `--json` carry."""

    CREATED = "created"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    RELEASING = "releasing"
    FINISHED = "finished"
    STOPPED = "stopped"
    PAUSED = "paused"
    FAILED = "failed"
    LOST = "lost"
    HEAD_LOST = "head_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateInfo:
    """What a state means to users, and what they can do in it."""

    state: RunState
    label: str
    sentence: str
    colour: str
    """A role of the theme: `accent`, `good`, `warn`, `bad` or `muted`."""
    can_stop: bool = False
    can_force: bool = False
    forcing: str = ""
    """A sentence on what forcing does; empty where nothing can be forced."""
    can_pause: bool = False
    """Whether a pause can be requested; before training begins it is answered as soon as it does."""
    can_save: bool = False
    can_resume: bool = False
    over: bool = False
    waits: bool = False
    """Whether it waits in the queue: it has neither processes that train nor devices."""

    @property
    def live(self) -> bool:
        """Whether a supervisor has the run, or is about to."""
        return not self.over and not self.waits


STATES = (
    StateInfo(state=RunState.CREATED, label=tr_noop("Created"), colour="muted", can_stop=True,
             sentence=tr_noop("The run is saved and about to start.")),
    StateInfo(state=RunState.QUEUED, label=tr_noop("Queued"), colour="muted", can_stop=True, waits=True,
             sentence=tr_noop("The run waits in the queue until its devices are free.")),
    StateInfo(state=RunState.STARTING, label=tr_noop("Starting"), colour="accent", can_stop=True, can_pause=True,
             can_save=True, sentence=tr_noop("The workers are loading their framework and the recipe.")),
    StateInfo(state=RunState.RUNNING, label=tr_noop("Running"), colour="accent", can_stop=True, can_pause=True,
             can_save=True, sentence=tr_noop("Training is running.")),
    StateInfo(state=RunState.STOPPING, label=tr_noop("Stopping"), colour="warn", can_force=True,
             forcing=tr_noop("Forcing the end of the workers."),
             sentence=tr_noop("The processes were asked to stop. If they do not, they are ended.")),
    StateInfo(state=RunState.RELEASING, label=tr_noop("Freeing memory"), colour="warn", can_force=True,
             forcing=tr_noop("Not waiting any longer for the devices' memory."),
             sentence=tr_noop("Training has ended. The devices are watched until their memory is back.")),
    StateInfo(state=RunState.FINISHED, label=tr_noop("Finished"), colour="good", over=True,
             sentence=tr_noop("Training was completed.")),
    StateInfo(state=RunState.STOPPED, label=tr_noop("Stopped"), colour="warn", over=True, can_resume=True,
             sentence=tr_noop("Training was stopped on request.")),
    StateInfo(state=RunState.PAUSED, label=tr_noop("Paused"), colour="warn", over=True, can_resume=True,
             sentence=tr_noop("Training was saved and its devices are free. Resume continues from there.")),
    StateInfo(state=RunState.FAILED, label=tr_noop("Failed"), colour="bad", over=True, can_resume=True,
             sentence=tr_noop("Training ended with an error.")),
    StateInfo(state=RunState.LOST, label=tr_noop("Lost"), colour="bad", over=True, can_resume=True,
             sentence=tr_noop("The background process of this run disappeared (killed, or the machine went down).")),
    StateInfo(state=RunState.HEAD_LOST, label=tr_noop("Head lost"), colour="bad", over=True,
             sentence=tr_noop("The machine that has this run was lost, so the part of it here was ended. Resume it "
                              "there. This part can be removed.")),
)

_FOLLOWING = {
    RunState.CREATED: (RunState.QUEUED, RunState.STARTING, RunState.FAILED),
    # A run that is stopped while it waits, or whose turn never comes, ends without having started.
    RunState.QUEUED: (RunState.STARTING, RunState.STOPPED, RunState.FAILED),
    # A run whose workers could not be started has nothing to release.
    RunState.STARTING: (
        RunState.RUNNING, RunState.STOPPING, RunState.RELEASING, RunState.FAILED, RunState.HEAD_LOST,
    ),
    RunState.RUNNING: (RunState.STOPPING, RunState.RELEASING),
    RunState.STOPPING: (RunState.RELEASING,),
    RunState.RELEASING: (
        RunState.FINISHED, RunState.STOPPED, RunState.PAUSED, RunState.FAILED, RunState.HEAD_LOST,
    ),
    # A run is resumed, or put into the queue again after the machine was shut down.
    RunState.PAUSED: (RunState.STARTING,),
    RunState.STOPPED: (RunState.STARTING, RunState.QUEUED),
    RunState.FAILED: (RunState.STARTING,),
    RunState.LOST: (RunState.STARTING, RunState.QUEUED),
}
TRANSITIONS = frozenset((state, following) for state, rows in _FOLLOWING.items() for following in rows)
"""Every transition that an event file may hold. Readers conclude LOST; it is never written."""

_ROWS = {row.state: row for row in STATES}


def state_info(state: RunState) -> StateInfo:
    """Return the row of a state."""
    return _ROWS[state]


SHOWN = 6
"""Modules that a sentence names; of more, the first and the last."""


def part_sentences(parts: Iterable[ModelPart], labels: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the label of each device with a sentence on what it holds. `labels`: names of devices by id."""
    parts = list(parts)
    whole = len({name for part in parts for name in part.parameters})
    return [(labels.get(part.device, part.device), _sentence(part, whole, labels)) for part in parts]


def _sentence(part: ModelPart, whole: int, labels: Mapping[str, str]) -> str:
    count = len(part.parameters)
    if part.reads_from:
        return tr("no parameter: it reads those on {device}", device=labels.get(part.reads_from, part.reads_from))
    if not count:
        return tr("no parameter of the model")
    if part.where.startswith("a shard"):  # of each parameter, instead of whole ones
        held = tr_plural("a shard of {count} parameter", "a shard of each of {count} parameters", count)
    else:
        modules = _modules(part.parameters)
        held = tr("{count} of {whole} parameters: {modules}", count=count, whole=whole, modules=modules)
    return held if part.size_bytes is None else tr("{held} ({size})", held=held, size=disk(part.size_bytes))


def _modules(names: Sequence[str]) -> str:
    """Return the modules that hold these parameters, in their order."""
    modules = list(dict.fromkeys(name.replace("/", ".").rpartition(".")[0] or name for name in names))
    if len(modules) <= SHOWN:
        return join_names(modules)
    return tr("{count} modules from {first} to {last}", count=len(modules), first=modules[0], last=modules[-1])


BADNESS = (
    Verdict.RELEASED, Verdict.CANNOT_BE_JUDGED, Verdict.HELD_BY_OTHERS, Verdict.UNEXPLAINED, Verdict.HELD_BY_RUN
)
"""From the best to the worst."""
HELD = frozenset({Verdict.HELD_BY_RUN, Verdict.HELD_BY_OTHERS, Verdict.UNEXPLAINED})
"""The verdicts on memory that did not come back."""


def worst(releases: Iterable[Release]) -> Release | None:
    """Return the release with the worst verdict, and of those the one that took longest; None for no releases."""
    return max(releases, key=lambda each: (BADNESS.index(each.verdict), each.seconds), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """One training process of a run."""

    rank: int
    process: ProcessId
    devices: tuple[str, ...]
    """The ids of its devices; none for a worker that only coordinates."""
    role: str
    """As in `WorkerStart`."""
    exit_code: int | None = None
    """None while it runs; the negative number of the signal that ended it."""
    host: str = ""
    """The name of the other machine on which it trains, where its process id counts; empty for this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What the events of a run say about it, measurements excepted."""

    state: RunState = RunState.CREATED
    history: tuple[tuple[float, RunState], ...] = ()
    stopped_by_signal: bool = False
    """Whether it was stopped by a signal to its supervisor, as at a log-out or a shutdown, and not by a user."""
    software: kinds.Software | None = None
    source: kinds.Source | None = None
    """None if the workload is in no repository, too."""
    supervisor: ProcessId | None = None
    guard: ProcessId | None = None
    waiter: ProcessId | None = None
    """The process that waits, or waited, in the queue."""
    host: HostId | None = None
    """The machine and the pid namespace of the run's processes."""
    workers: dict[int, WorkerRecord] = field(default_factory=dict)
    devices: dict[str, dict[str, Any]] = field(default_factory=dict)
    parts: dict[str, ModelPart] = field(default_factory=dict)
    """By device id, what it holds of the model; empty for strategies that keep the whole model on each device."""
    plan: kinds.Plan | None = None
    earlier_plan: kinds.Plan | None = None
    """The plan from before the run was resumed, until there is a new one."""
    phase: kinds.Phase | None = None
    """What the run does before its first step; None before any report of its workers and from the first step on."""
    progress: kinds.RunProgress | None = None
    """The progress of a script, which has no plan; None until it reports any."""
    step: int = 0
    """Optimizer steps reported so far."""
    checkpoint: kinds.Checkpoint | None = None
    """The last checkpoint that was written."""
    trace: kinds.Trace | None = None
    """The last trace that was written."""
    asked: str = ""
    """`pause` or `save` until the workers have answered that request; else the empty string."""
    starts: int = 0
    """How often the run was started: 1, plus 1 for each time it was resumed."""
    collected: int = 0
    """Number of events so far of the kinds of which every one is kept."""
    latest: float = 0.0
    """Unix seconds of the latest event so far."""
    stop_steps: tuple[kinds.StopStep, ...] = ()
    """The steps of the stop since the last start."""
    error: str | None = None
    """A sentence if the run failed or was lost."""
    traceback: str | None = None
    notices: tuple[str, ...] = ()
    """Sentences that a user should see although the run goes on."""
    unticked_device_uses: tuple[kinds.UntickedDeviceUse, ...] = ()
    """Uses of devices that were not ticked, since the run was last started; each sentence once."""
    waiting: str | None = None
    """A sentence on what the memory watch waits for; None unless it waits."""
    stalled: str | None = None
    """A sentence while the run is training but reports no step."""
    peaks: dict[str, kinds.MemoryPeak] = field(default_factory=dict)
    """By device id, the most memory that the workers of a recipe have used on it since the last start, together."""
    slowed: dict[str, str] = field(default_factory=dict)
    """By device id, a sentence while heat or a weak power supply slows the device down."""
    faults: dict[str, str] = field(default_factory=dict)
    """By device id, sentences on what its driver last said is wrong with it since the run was started."""
    stopped_processes: str | None = None
    """Sentences while processes of the run are stopped (state T). No event has them: `Run.poll` looks for them."""
    releases: dict[str, Release] = field(default_factory=dict)
    """By device id, what became of its memory after the end."""
    ended_processes: tuple[kinds.TerminatedProcess, ...] = ()
    """Processes that outlived their worker or their supervisor, and were terminated."""
    ended_before_resume: tuple[kinds.TerminatedProcess, ...] = ()
    """Processes terminated while resuming; shown with the resumed part of the run."""

    @property
    def started(self) -> float | None:
        """Unix seconds at which the run was started first; None before that. Waiting in the queue does not count."""
        return next((time for time, state in self.history if state is not RunState.QUEUED), None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences that a user should see although the run goes on: on devices, then notices."""
        return (*self.faults.values(), *(use.sentence for use in self.unticked_device_uses), *self.notices)

    @property
    def ended(self) -> float | None:
        """Unix seconds at which the run was over; None before that."""
        return self.history[-1][0] if self.history and state_info(self.state).over else None


def without_present(facts: RunFacts) -> RunFacts:
    """Return the facts of a run that is over without those that hold only while it is supervised."""
    return replace(facts, phase=None, asked="", waiting=None, stalled=None, slowed={}, stopped_processes=None)
