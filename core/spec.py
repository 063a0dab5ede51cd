"""RunSpec: what was asked of a run. Frozen dataclasses, JSON in and out, each checks its own fields.

Also loaded inside workers: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import json
import os
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar, Union

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

VERSION = 1
SPEC_FILE = "spec.json"
PRECISIONS = ("float32", "bfloat16")
SCHEDULES = ("constant", "cosine")
CUDA_IDS = ("uuid", "integer")
CHECKPOINT_UNITS = ("auto", "epochs", "steps", "minutes", "never")
SCRIPT = "script"
"""The framework of runs that start a program of the user's own: it brings its framework itself."""
OF_OUR_LOOPS = frozenset({"recipe", "training", "checkpoints"})
"""The parts of a spec that a script has no use for."""

RECIPE_FUNCTIONS = ("model", "train_data", "val_data", "loss", "optimizer", "metrics", "stages", "placed_model")
"""The functions a recipe may have; the first two it must have."""
REQUIRED_FUNCTIONS = RECIPE_FUNCTIONS[:2]
RUN_KEYWORDS = ("seed", "learning_rate", "batch_size", "epochs")
"""Keywords of a recipe's functions that the run's own settings fill; they are no settings of the recipe."""

DEFAULT_LEARNING_RATE = 1e-3
"""Of Adam, in torch.optim and in Keras, which a recipe without an optimizer is given."""

SettingValue = Union[bool, int, float, str, None]  # noqa: UP007 (evaluated, also by Python 3.10)
Part = TypeVar("Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The settings that all strategies share."""

    epochs: int = 10
    batch_size: int = 64
    """The global batch: items per optimizer step, over all devices and accumulation steps."""
    learning_rate: float | None = None
    """None leaves the recipe's own optimizer as it is."""
    seed: int = 0
    accumulation: int = 1
    """Gradient accumulation: micro-batches per device and optimizer step."""
    precision: str = "float32"
    """`float32`, or `bfloat16` for autocast."""
    loader_workers: int = 0
    """Data-loader worker processes per rank; 0 loads in the training process."""
    schedule: str = "constant"
    """Of the learning rate after its warm-up: `constant`, or `cosine` down to 0 at the last step."""
    warmup_steps: int = 0
    """Linear warm-up: the learning rate rises to its full height in so many optimizer steps."""
    weight_decay: float | None = None
    """Decoupled, as in AdamW: weights shrink by rate x decay before each step. None leaves the recipe's optimizer."""
    gradient_clip: float | None = None
    """The largest norm of the whole model's gradient over the global batch; None for no limit."""
    patience: int | None = None
    """Early stopping: ends after so many epochs without a better `val_loss`, or `loss` where none is validated."""
    stop_on_nan: bool = False
    """Fail at a loss that is not finite; else it is told and training goes on."""
    compile: bool = False
    """`torch.compile`, or XLA (`jit_compile`) under TensorFlow and Keras."""
    micro_batches: int = 4
    """Pipelines only: micro-batches per pass, under way in the stages at the same time."""

    def __post_init__(self) -> None:
        _whole("number of epochs", self.epochs, 1)
        _whole("batch size", self.batch_size, 1)
        _whole("seed", self.seed, 0)
        if self.seed >= 2**63:
            raise ValueError(f"The seed is {self.seed}. Give one below 2**63.")
        _whole("gradient accumulation", self.accumulation, 1)
        _whole("data-loader workers", self.loader_workers, 0)
        _whole("number of warm-up steps", self.warmup_steps, 0)
        _whole("number of micro-batches", self.micro_batches, 1)
        if self.learning_rate is not None:
            _positive("learning rate", self.learning_rate)
        if self.weight_decay is not None and self.weight_decay != 0:
            _positive("weight decay", self.weight_decay)
        if self.gradient_clip is not None:
            _positive("limit of the gradient's norm", self.gradient_clip)
        if self.patience is not None:
            _whole("patience of early stopping", self.patience, 1)
        _one_of("Precision", self.precision, PRECISIONS)
        _one_of("Schedule", self.schedule, SCHEDULES)
        for name in ("stop_on_nan", "compile"):
            _flag(name.replace("_", " "), getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """When a run writes checkpoints, and which it keeps. Pausing and "save now" always write one."""

    unit: str = "auto"
    """`epochs`, `steps` or `minutes`, counted by `every`, and at the end of training; `never`; or `auto`: at ends of
    epochs, as often as a hundredth of the training time allows, and at the end."""
    every: int = 1
    keep: int = 2
    """So many of the latest are kept."""
    best: bool = True
    """Also the one with the least monitored loss (`val_loss`, or `loss` where none is validated)."""

    def __post_init__(self) -> None:
        _one_of("The unit of checkpoints", self.unit, CHECKPOINT_UNITS)
        _whole("distance of checkpoints", self.every, 1)
        _whole("number of checkpoints to keep", self.keep, 1)
        _flag("keeping of the best checkpoint", self.best)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What to train: a Python file of plain functions, and the values of their keyword arguments."""

    name: str
    path: str
    settings: Mapping[str, SettingValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _text("recipe name", self.name)
        _text("recipe path", self.path)
        for name, value in self.settings.items():
            if not isinstance(value, (bool, int, float, str, type(None))):
                raise ValueError(f"Setting {name!r} is {value!r}. Give a number, a text, true, false or null.")  # noqa: TRY004


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What to start: a program that trains by itself, as it would be started from a shell."""

    path: str = ""
    """A Python file, or a folder with a `__main__.py`; absolute."""
    module: str = ""
    """In its place, the name of a module: `python -m NAME`."""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables in addition to those of who started the run."""
    expression: str = ""
    """A regular expression with named groups, by which its log is read; none for the known ways of printing."""

    def __post_init__(self) -> None:
        if bool(self.path) == bool(self.module):
            raise ValueError("A script is given either as a file or as a module. Give one of them.")
        for what in ("path", "module", "expression"):
            if not isinstance(getattr(self, what), str):
                raise ValueError(f"The script's {what} is {getattr(self, what)!r}. Give a text.")  # noqa: TRY004
        if not all(isinstance(each, str) and "\0" not in each for each in self.arguments):
            raise ValueError(f"The script's arguments are {self.arguments!r}. Give texts without zero bytes.")
        for name, value in self.environment.items():
            if not isinstance(name, str) or not name or "=" in name or not isinstance(value, str):
                raise ValueError(f"{name!r} cannot be a variable of the environment. Give NAME=VALUE.")

    @property
    def name(self) -> str:
        """What people call it."""
        return self.module or self.path.rstrip("/").rpartition("/")[2]

    @property
    def command(self) -> tuple[str, ...]:
        """What the interpreter is given."""
        return ("-m", self.module, *self.arguments) if self.module else (self.path, *self.arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopLadder:
    """How long each rung of the stop ladder is given, in seconds, before the next follows."""

    ask_s: float = 10.0
    interrupt_s: float = 5.0
    terminate_s: float = 5.0

    def __post_init__(self) -> None:
        for item in fields(self):
            _positive(f"stop ladder's {item.name}", getattr(self, item.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseWatch:
    """How the memory of the devices is watched after the run's last worker has ended."""

    tolerance_mb: int = 64
    """A device is released when it uses no more than so many MB, of 2**20 bytes, more than before the run."""
    wait_s: float = 60.0
    """It is waited for so many seconds at most; in almost all runs memory is back within one."""

    def __post_init__(self) -> None:
        _whole("tolerance of the memory watch in MB", self.tolerance_mb, 0)
        _positive("time that the memory watch waits", self.wait_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """All that a run needs to be run again."""

    name: str
    framework: str
    strategy: str
    recipe: Recipe | None = None
    script: Script | None = None
    """In its place."""
    devices: tuple[str, ...]
    """Device ids in the order of ranks: `cpu:0`, or a GPU's full UUID."""
    training: Training = field(default_factory=Training)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    ladder: StopLadder = field(default_factory=StopLadder)
    release: ReleaseWatch = field(default_factory=ReleaseWatch)
    cuda_ids: str = "uuid"
    """How CUDA_VISIBLE_DEVICES names the GPUs: `uuid`, or `integer` for libraries that read only numbers there."""
    python: str
    """The interpreter of the workers."""
    working_dir: str
    """Where the workers run, so that a recipe's relative paths mean what they meant to who started it."""

    def __post_init__(self) -> None:
        for name in ("name", "framework", "strategy", "python", "working_dir"):
            _text(name.replace("_", " "), getattr(self, name))
        for device in self.devices:
            _text("device id", device)
        _one_of("The way of naming GPUs to CUDA", self.cuda_ids, CUDA_IDS)
        if (self.recipe is None) == (self.script is None):
            raise ValueError("A run trains either a recipe or a script. Give one of them.")
        if (self.framework == SCRIPT) != (self.script is not None):
            raise ValueError(f"A recipe has a framework, and a script has {SCRIPT!r} in its place.")

    @property
    def own_recipe(self) -> Recipe:
        """The recipe of a run that trains one: its workers have no other run."""
        assert self.recipe is not None
        return self.recipe

    def to_json(self) -> dict[str, Any]:
        """The content of `spec.json`; a script's has no settings of our own loops, which it knows nothing of."""
        parts = asdict(self)
        told = {name: value for name, value in parts.items() if self.script is None or name not in OF_OUR_LOOPS}
        return {"version": VERSION, **told, "devices": list(self.devices)}

    @classmethod
    def from_json(cls, data: object) -> RunSpec:
        """Raises `ValueError` with a sentence when `data` is no spec, or one of a newer version."""
        if not isinstance(data, dict):
            raise ValueError("It is not a JSON object.")  # noqa: TRY004 (the content is wrong, not the caller)
        version = data.get("version")
        if isinstance(version, int) and version > VERSION:
            raise ValueError(
                f"It was written by a newer Trainyard (version {version}; this one reads up to {VERSION}). "
                "Update Trainyard to open it."
            )
        parts = {
            "recipe": Recipe, "script": Script, "training": Training, "checkpoints": Checkpoints, "ladder": StopLadder,
            "release": ReleaseWatch,
        }  # fmt: skip
        data = {
            name: _part(parts[name], value) if name in parts and value is not None else value
            for name, value in data.items()
        }
        if isinstance(data.get("devices"), list):
            data["devices"] = tuple(data["devices"])
        return _part(cls, data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where one worker stands among the workers of its run: what the launcher tells it."""

    rank: int
    world_size: int
    devices: tuple[str, ...]
    """Ids of all devices of the run."""
    own: tuple[str, ...]
    """Of these, the ones that this worker computes on; none for one that only coordinates or keeps variables."""
    kind: str
    """`cpu` or `nvidia`: what all of these devices are."""
    cores: tuple[int, ...]
    """The logical cores this worker is pinned to; empty leaves the choice to the operating system."""
    target: str
    """The strategy's module below `core.worker`, such as `pytorch.ddp`; none where a script is started."""
    role: str = "worker"
    """`worker`; among the processes of a parameter server strategy also `chief` and `ps`."""
    addresses: tuple[str, ...] = ()
    """`host:port` by rank, for strategies whose workers meet over the network; else empty."""

    def to_text(self) -> str:
        """For a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Placement:
        """What `to_text` wrote."""
        data = json.loads(text)
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
        }
        return cls(**values)


def read_spec(run_dir: Path) -> RunSpec:
    """The spec of a run directory. Raises `ValueError` with a sentence that names the file."""
    path = run_dir / SPEC_FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return RunSpec.from_json(data)
    except OSError as error:
        raise ValueError(f"{path} could not be read: {error.strerror}.") from error
    except ValueError as error:
        raise ValueError(f"{path} is not a spec that can be used. {error}") from error


def write_spec(run_dir: Path, spec: RunSpec) -> None:
    """Write `spec.json` whole: under a temporary name, then renamed."""
    path = run_dir / SPEC_FILE
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(spec.to_json(), indent=2) + "\n", encoding="utf-8")
    os.replace(temporary, path)  # noqa: PTH105 (the atomic call, by its usual name)


def _part(kind: type[Part], data: object) -> Part:
    """Build a dataclass from JSON, passing over fields it does not know."""
    if isinstance(data, kind):
        return data
    if not isinstance(data, dict):
        raise ValueError(f"Its {kind.__name__.lower()} is {data!r} where an object was expected.")  # noqa: TRY004
    if isinstance(data.get("arguments"), list):
        data = {**data, "arguments": tuple(data["arguments"])}
    known = {item.name for item in fields(kind)}  # type: ignore[arg-type]  # always one of our dataclasses
    needed = {item.name for item in fields(kind) if item.default is MISSING and item.default_factory is MISSING}  # type: ignore[arg-type]
    if missing := sorted(needed - data.keys()):
        raise ValueError(f"It is not complete: {', '.join(missing)} of its {kind.__name__.lower()} is not there.")
    return kind(**{name: value for name, value in data.items() if name in known})


def _whole(what: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"The {what} is {value!r}. Give a whole number of at least {least}.")


def _positive(what: str, value: object) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise ValueError(f"The {what} is {value!r}. Give a number greater than 0.")


def _one_of(what: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{what} {value!r} is unknown. Choose one of: {', '.join(known)}.")


def _flag(what: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"The setting {what} is {value!r}. Give true or false.")  # noqa: TRY004


def _text(what: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise ValueError(f"The {what} is {value!r}. Give a text that is not empty.")
