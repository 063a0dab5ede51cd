"""All kinds of events: what each says, its fields, and what a part on another machine hands on.

A row is a frozen dataclass. In a file, an event is `{"t": unix seconds, "kind": ..., **fields}`; see `codec` for the
fields. A field that is `rare` is left out of the file while it has its default. Unknown kinds and fields are ignored.

A run over several machines records what its parts there report. `forwarded` says from which files of a part a kind is
taken; the types `Time`, `DeviceId`, `Machine` and `NamedSentence` say which fields are translated on the way.
"""

from __future__ import annotations

import time
from collections.abc import Mapping  # noqa: TC003 (the codec reads the annotations)
from dataclasses import dataclass, field, replace
from enum import Enum, Flag, auto
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from ..language import tr, tr_noop
from .codec import ALL, Limits, Sentence, decode, encode, named, rare

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import dataclass_transform

else:

    def dataclass_transform(**_):  # noqa: ANN003, ANN201 (missing in Python 3.10)
        return lambda kind: kind


class Forwarded(Flag):
    """From which files of a part on another machine a kind of event is taken into the run."""

    NEVER = 0
    OF_WORKERS = auto()
    OF_HOST = auto()
    """Those of the part's supervisor, guard and readings."""


class Foreign(Enum):
    """What in an event of another machine has another value in the run."""

    TIME = auto()
    DEVICE = auto()
    MACHINE = auto()
    SENTENCE = auto()


Time = Annotated[float, Foreign.TIME]
"""Unix seconds, by the clock of the machine."""
DeviceId = Annotated[str, Foreign.DEVICE]
Machine = Annotated[str, Foreign.MACHINE]
"""The name of the other machine; the empty string for this one."""
NamedSentence = Annotated[Sentence, Foreign.SENTENCE]
"""A sentence before which the other machine is named."""

KINDS: dict[str, type[Record]] = {}
"""The rows by the name of their kind."""
OF_WORKERS, OF_HOST = Forwarded.OF_WORKERS, Forwarded.OF_HOST


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field, rare))
class _Row:
    """Makes each subclass a frozen dataclass and a row of `KINDS`."""

    kind: ClassVar[str]
    forwarded: ClassVar[Forwarded]
    limits: ClassVar[Limits]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, *, kind: str = "", forwarded: Forwarded = Forwarded.NEVER, limits: Limits = ALL) -> None:
        """`limits`: how much of long texts and lists is kept when an event is read."""
        cls.kind, cls.forwarded, cls.limits = kind, forwarded, limits
        dataclass(frozen=True, kw_only=True)(cls)
        if kind:
            KINDS[kind] = cls  # type: ignore[assignment]  # only `Record` itself has no kind


class Record(_Row):
    """An event. Two records are equal if they say the same, at whatever time."""

    time: Time = field(default=-1.0, compare=False, metadata=named("t"))
    """Unix seconds; negative until it is written."""

    def fields(self) -> dict[str, Any]:
        """Return the fields as a file has them, without time and kind."""
        return {name: value for name, value in encode(self).items() if name != "t"}

    def event(self) -> dict[str, Any]:
        """Return the event as a file has it. Its time is now, unless it has one."""
        return {"t": self.time if self.time >= 0 else time.time(), "kind": self.kind, **self.fields()}


Kind = TypeVar("Kind", bound=Record)


def read(event: dict[str, Any]) -> Record:
    """Return the record of an event. Raises `ValueError` if it is damaged, `KeyError` if its kind is unknown."""
    kind = KINDS[event["kind"]]
    return decode(kind, event, kind.limits)


def read_all(kind: type[Kind], events: Iterable[dict[str, Any]]) -> list[Kind]:
    """Return the records of a kind among events, without damaged ones."""
    found = []
    for event in events:
        if event["kind"] == kind.kind:
            try:
                found.append(decode(kind, event, kind.limits))
            except ValueError:
                continue
    return found


# -- of a worker ---------------------------------------------------------------------------------


class Seen(Record, kind="seen", forwarded=OF_WORKERS):
    """What the process of a worker really sees."""

    rank: int
    gpus: int
    threads: int


class Phase(Record, kind="phase", forwarded=OF_WORKERS):
    """What a worker begins to do before its first step; see `core.worker.context.Context.enter_phase`."""

    rank: int
    name: str
    python: str = rare(default="")
    """The version of Python, in the first phase."""
    framework: str = rare(default="")
    """The version of the framework, once it is loaded."""


class Plan(Record, kind="plan", forwarded=OF_WORKERS):
    """The amount of training, as rank 0 announces it."""

    epochs: int
    steps_per_epoch: int
    samples_per_epoch: int

    @property
    def steps(self) -> int:
        """Optimizer steps in the whole run."""
        return self.epochs * self.steps_per_epoch

    def epoch_of(self, step: int) -> int:
        """Return the epoch of a step, from 1, also for step 0."""
        return max(1, -(-step // self.steps_per_epoch))


class Ready(Record, kind="ready", forwarded=OF_WORKERS):
    """The first step of a worker is next."""

    rank: int


class Metrics(Record, kind="metrics", forwarded=OF_WORKERS):
    """A batch of measurements, in columns; never made: `events.metrics_line` writes it, and it is read as it is."""

    since: Time
    """When the first of these steps ended. The last one ended at the time of the event."""
    first: int
    unit: str = rare(default="")
    """`events.EPOCH` if the numbers of epochs stand for steps."""
    every: int = rare(default=1)
    """Steps from one value to the next."""
    values: Mapping[str, tuple[float | None, ...]]
    """By metric, the values of the steps `first`, `first + every`, ..."""


class Done(Record, kind="done", forwarded=OF_WORKERS):
    """A worker has trained to the end, or as far as was requested. One that exits without this event has failed."""

    rank: int
    paused: bool = False


class ModelPart(Record, kind="parts", forwarded=OF_WORKERS, limits=Limits(text=200, items=10_000)):
    """What a device holds of a model."""

    rank: int = 0
    device: DeviceId
    parameters: tuple[str, ...]
    """Names in the framework's own way, such as `body.0.weight` or `dense/kernel`."""
    where: str
    """Where the framework says that they are, such as `cuda:1`; for fsdp, that they are shards."""
    size_bytes: int | None = field(default=None, metadata=named("bytes"))
    """The size of these parameters on the device; None if it is not known."""
    reads_from: DeviceId | None = None
    """The device whose parameters it reads at each step, where it has none by intention."""


class Checkpoint(Record, kind="checkpoint", forwarded=OF_WORKERS):
    """A complete checkpoint. It may have been pruned since."""

    step: int
    epoch: int = 0
    name: str
    """The name of its folder below `checkpoints`."""
    reason: str = ""
    """`asked`, `pause`, `epoch`, `end`, ..."""
    seconds: float = 0.0
    """How long it took to write."""
    size_bytes: int | None = field(default=None, metadata=named("bytes"))
    metric: str = rare(default="")
    """What is monitored: `val_loss`, or without validation `loss`."""
    value: float | None = rare(default=None)
    """The monitored loss; None within an epoch, and in events of an earlier version."""
    lowest: float | None = rare(default=None)
    lowest_epoch: int = rare(default=0)
    """The lowest monitored loss of the run so far, saved or not, and its epoch, from 1; 0 if that is not known."""
    kept: float | None = rare(default=None)
    """The lowest monitored loss of the checkpoints that are on disk now; None if they have none."""


class Rewind(Record, kind="rewind", forwarded=OF_WORKERS):
    """Training continues after this step. Measurements of later steps are void."""

    step: int


class SettingChange(Record, kind="setting"):
    """A setting was changed while the run trained, on all ranks. The value holds for the steps after `step`."""

    step: int
    name: str
    """One of `spec.CHANGEABLE`."""
    old: Any = field(metadata=named("from"))
    new: Any = field(metadata=named("to"))


class Trace(Record, kind="trace", forwarded=OF_WORKERS):
    """What a rank has done in some steps was written into a file that Perfetto opens; or why it was not."""

    rank: int
    step: int
    """The last one."""
    steps: int
    file: str
    """Its name in the folder `outputs`; the empty string if it could not be written."""
    why: Sentence = rare(default="")


class WorkerError(Record, kind="error", forwarded=OF_WORKERS):
    """An error that ends a worker."""

    rank: int = 0
    type_name: str = field(default="", metadata=named("type"))
    message: Sentence = ""
    traceback: str | None = None
    """None for an error that we raise on purpose."""


class MemoryPeak(Record, kind="peak", forwarded=OF_WORKERS):
    """The most memory of a device that a worker has used (of a CPU device: a part of the process), and what is left."""

    rank: int
    device: DeviceId
    peak_bytes: int = field(metadata=named("bytes"))
    left_bytes: int | None = None


class StepTime(Record, kind="step_time", forwarded=OF_WORKERS):
    """The seconds that each part of one step of a worker took. A part that could not be measured is missing."""

    rank: int
    step: int
    """From 1, in the whole run."""
    seconds: float
    """From the end of the step before to its end. What the parts leave of it is the loop's own."""
    data: float | None = rare(default=None)
    """It waited for the next batch."""
    copy: float | None = rare(default=None)
    forward: float | None = rare(default=None)
    backward: float | None = rare(default=None)
    wait: float | None = rare(default=None)
    """It waited for other ranks after its own gradients were computed, or exchanged gradients with them."""
    optimizer: float | None = rare(default=None)
    arrived: float | None = rare(default=None)
    """When it had computed its own gradients, by `time.monotonic`, which all processes of a machine share."""


class LinkSpeed(Record, kind="link", forwarded=OF_WORKERS):
    """How fast the machines of the run exchange data."""

    size_bytes: int = field(metadata=named("bytes"))
    seconds: float
    bytes_per_s: float
    backend: str


# -- of the supervisor and its watches -----------------------------------------------------------


class Notice(Record, kind="notice", forwarded=OF_WORKERS | OF_HOST):
    """A message to the user that does not end the run."""

    text: NamedSentence


class NotFinite(Notice, kind="not_finite", forwarded=OF_WORKERS):
    """A notice that the loss has ceased to be a number."""


class Moved(Notice, kind="moved"):
    """A notice that the run was resumed on other devices, or with another strategy."""

    devices: tuple[str, ...]
    """In the order of ranks."""
    where: Sentence
    """Their names and the strategy, such as `GPU 0 and GPU 1 (ddp)`."""


class Queued(Record, kind="queued"):
    """A process begins to wait for the run in the queue."""

    pid: int
    created: float
    host: str = ""
    boot: str = ""
    pid_namespace: str = ""


class SupervisorStart(Queued, kind="supervisor"):
    """The supervisor was started: the run starts, or is resumed."""

    guard: Mapping[str, Any] | None = rare(default=None)
    """Pid and start time of the guard."""


class StateChange(Record, kind="state"):
    """The run enters a state of `core.runs.facts`."""

    state: str
    error: Sentence | None = rare(default=None)
    """Why it failed, in a sentence."""
    traceback: str | None = rare(default=None)
    by_signal: bool = rare(default=False)
    """Whether it was stopped by a signal to its supervisor, as at a log-out or a shutdown, and not by a user."""


class RunDevice(Record, kind="device"):
    """A device of the run."""

    id: str
    device_kind: str | None = None
    label: str | None = None
    name: str | None = None
    memory_total_bytes: int | None = None
    pci_bus_id: str | None = None
    cores: tuple[int, ...] | None = None


class WorkerStart(Record, kind="worker", forwarded=OF_HOST):
    """A worker was started."""

    rank: int
    role: str = "worker"
    """`worker`, or `chief` or `ps` in a parameter-server run, or `fetch` for one that fetches data before them."""
    pid: int
    created: float
    devices: tuple[DeviceId, ...]
    """The ids of its devices; none for a worker that only coordinates."""
    host: Machine = rare(default="")


class WorkerExit(Record, kind="worker_exit", forwarded=OF_HOST):
    """A worker has exited."""

    rank: int
    exit_code: int
    """The negative number of the signal that ended it, if one did."""
    signalled: bool = False
    """Whether the run had signalled it before."""


class Requested(Record, kind="request"):
    """A pause or a checkpoint was requested."""

    asked: str
    """`pause` or `save`; the empty string once it is taken back."""


class StopStep(Record, kind="stop_step"):
    """A step of a stop was taken."""

    name: str
    """`asked`, `SIGINT`, `SIGTERM` or `SIGKILL`."""
    grace_s: float | None = None
    """Seconds until the next step follows; None for the last."""


class UntickedDeviceUse(Record, kind="unticked_device", forwarded=OF_HOST):
    """Processes of the run are on a device that was not ticked."""

    device_id: DeviceId = field(metadata=named("device"))
    pids: tuple[int, ...]
    sentence: Sentence = field(metadata=named("text"))


class Slowed(Record, kind="slowed", forwarded=OF_HOST):
    """Heat or a weak power supply begins, or ceases, to slow a device down."""

    device_id: DeviceId = field(metadata=named("device"))
    sentence: Sentence = field(metadata=named("text"))
    """The empty string at the end."""
    seconds: float | None = rare(default=None)
    """How long it lasted; None at the beginning."""


class DeviceFault(Record, kind="fault", forwarded=OF_HOST):
    """The driver says that something is wrong with a device."""

    device_id: DeviceId = field(metadata=named("device"))
    sentence: NamedSentence = field(metadata=named("text"))


class Stall(Record, kind="stall"):
    """The run reports no steps, or reports steps again."""

    text: Sentence = ""
    """The empty string at the end."""


class Waiting(Record, kind="waiting"):
    """What the memory watch waits for."""

    text: Sentence


class DeviceReading(Record, kind="sample", forwarded=OF_HOST):
    """A reading of a device, written often: it is read as it is, many at once, by `event_log`."""

    device_id: DeviceId = field(metadata=named("device"))
    utilisation_percent: float | None = None
    memory_used_bytes: int | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None
    sm_clock_mhz: float | None = rare(default=None)
    slowdowns: tuple[str, ...] = rare(default=())
    """Words for why the device is slowed down."""
    lost: str | None = rare(default=None)
    """A sentence, in English, if the device does not answer. The window takes it from its own readings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    """A process of a machine. Fields that cannot be read are None."""

    pid: int
    created: float | None = None
    """Start time in seconds since the machine's start; None if the pid is unknown here."""
    device_id: str | None = None
    """The device that it uses; None if unknown."""
    memory_used_bytes: int | None = None
    """Memory of the device; on a CPU device, resident memory."""
    name: str | None = None
    user: str | None = None
    command: str | None = None
    age_s: float | None = None
    """Seconds since its start."""
    run_id: str | None = None
    """The run whose tag it has, if its environment may be read."""
    state: str | None = None
    """The state in `/proc/PID/stat`: R, S, D, Z, T, ..."""
    ours: bool = False
    """Whether it belongs to the current user."""
    listed: bool = False
    """Whether the device's driver lists it; otherwise it only has the device's file open."""

    @property
    def key(self) -> tuple[int, float | None]:
        """Its pid and start time, which identify it."""
        return self.pid, self.created

    @property
    def words(self) -> str:
        """`pid 4711 python (anna)`, for use in a sentence."""
        if self.name is None:
            return tr("pid {pid} (in a container, or already ended)", pid=self.pid)
        return f"pid {self.pid} {self.name}" + (f" ({self.user})" if self.user else "")

    def to_json(self) -> dict[str, Any]:
        """Return the process as an event has it: without age and device, and with a short command line."""
        fields = encode(replace(self, command=self.command and shortened(self.command)))
        return {name: value for name, value in fields.items() if name not in {"age_s", "device_id", "listed"}}


COMMAND_LENGTH = 300
"""Characters of a command line that an event keeps: the line may be megabytes."""


def shortened(command: str, length: int = COMMAND_LENGTH) -> str:
    """Return at most `length` characters of a command line."""
    return command if len(command) <= length else f"{command[: length - 1]}…"


class Verdict(Enum):
    """What became of a device's memory after a run. The values appear in event files and in `--json`."""

    RELEASED = tr_noop("released")
    HELD_BY_RUN = tr_noop("held by this run")
    HELD_BY_OTHERS = tr_noop("held by others")
    UNEXPLAINED = tr_noop("unexplained")
    CANNOT_BE_JUDGED = tr_noop("cannot be judged")


class Release(Record, kind="release", forwarded=OF_HOST):
    """The finding on one device after the run's last worker had exited."""

    device_id: DeviceId = field(metadata=named("device"))
    verdict: Verdict
    before_bytes: int | None
    """Memory used before the first worker was started; None without a reading."""
    peak_bytes: int | None
    after_bytes: int | None
    """Memory used at the last reading after the end; None without one."""
    seconds: float
    """Seconds from the exit of the last worker to the verdict."""
    sentence: Sentence
    holders: tuple[ProcessInfo, ...] = ()
    """Processes that still hold the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminatedProcess:
    """A process of the run that outlived its worker or supervisor and was terminated."""

    pid: int
    created: float
    """Start time in seconds since the machine's start."""
    name: str | None
    command: str | None
    """As `shortened` returns it."""
    signal: str
    """The last signal sent to it: `SIGTERM` or `SIGKILL`."""
    by: str = rare(default="")
    """`supervisor` or `guard`; empty in the event, which says it of all."""


class Ended(Record, kind="ended", forwarded=OF_HOST):
    """Processes that were left over were terminated."""

    by: str
    """`supervisor` or `guard`."""
    processes: tuple[TerminatedProcess, ...]
    before_resume: bool = rare(default=False)
    """Whether that was done to resume the run."""
    host: Machine = rare(default="")


class Software(Record, kind="software", limits=Limits(text=200, items=1000)):
    """The Python of the workers, as it described itself at the start."""

    version: str
    """`3.12.3`."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Versions by the name of the installed distribution."""
    trainyard: str = ""
    """The version of Trainyard; the empty string if it was not recorded."""


class Source(Record, kind="source", limits=Limits(text=4096)):
    """The state of the Git repository that the workload lies in, at the start."""

    folder: str
    commit: str
    """The empty string for a repository without a commit."""
    branch: str
    """The empty string if no branch was checked out."""
    changed: bool
    """Whether tracked files differed from the commit, or the workload itself was not tracked."""


class ClockOffset(Record, kind="clock"):
    """How far the clock of another machine is ahead."""

    host: str
    offset_s: float


class Preflight(Record, kind="preflight"):
    """What was found on another machine before the start; see `core.hosts.parts.workload.Equipment`."""

    host: str
    version: str = rare(default="")
    nccl: str = rare(default="")
    recipe: str = rare(default="")
    paths: tuple[str, ...] = rare(default=())
    versions: Mapping[str, Any] | None = rare(default=None)
    """Of a script: by framework."""
    files: Mapping[str, str] | None = rare(default=None)
    """Hashes of the script's own files, by path."""


# -- of the process that reads the metrics of a script -------------------------------------------


class MetricRestart(Record, kind="metric_restart"):
    """A more reliable source gives these metrics from the start: their values so far are void."""

    metrics: tuple[str, ...]


class RunProgress(Record, kind="progress"):
    """The progress that a script reports."""

    done: float
    total: float
    unit: str = ""
    """`steps`, `epochs`, or the empty string if the script does not name the unit."""


class LogRead(Record, kind="log_read"):
    """How many bytes of the log of a rank have been read; see `core.metrics.rank_metrics`."""

    rank: int
    size_bytes: int = field(metadata=named("bytes"))


class MetricFile(Record, kind="metric_file"):
    """A file whose measurements are read from this byte on."""

    path: str
    begin: int
    other_run: str = ""
    """The run that may have written the file, which was not read then; the empty string if it was."""


class Reread(Record, kind="reread"):
    """The measurements were read again after the run: how the times of values are known, and metrics that were kept."""

    times: Mapping[str, int]
    kept: tuple[str, ...]


# -- of users: in a file of its own --------------------------------------------------------------


class MarkChange(Record, kind="mark"):
    """A user has changed the marks of the run; see `core.history.marks`."""

    star: bool | None = rare(default=None)
    archived: bool | None = rare(default=None)
    tags: tuple[str, ...] = rare(default=())
    """Added tags."""
    untag: tuple[str, ...] = rare(default=())
    """Removed tags."""
    note: str = rare(default="")
