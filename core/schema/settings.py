"""The settings of a run: frozen dataclasses that check their own fields.

Also loaded inside workers: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from collections.abc import Mapping


PRECISIONS = ("float32", "bfloat16")
SCHEDULES = ("constant", "cosine")
CUDA_IDS = ("uuid", "integer")
CHECKPOINT_UNITS = ("auto", "epochs", "steps", "minutes", "never")

RECIPE_FUNCTIONS = ("model", "train_data", "val_data", "loss", "optimizer", "metrics", "stages", "placed_model")
"""The functions a recipe may have; the first two it must have."""
REQUIRED_FUNCTIONS = RECIPE_FUNCTIONS[:2]
RUN_KEYWORDS = ("seed", "learning_rate", "batch_size", "epochs")
"""Keywords of a recipe's functions that the run's own settings fill; they are no settings of the recipe."""

DEFAULT_LEARNING_RATE = 1e-3
"""Of Adam, in torch.optim and in Keras, which a recipe without an optimizer is given."""

SettingValue = Union[bool, int, float, str, None]  # noqa: UP007 (evaluated, also by Python 3.10)


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
        check_whole("number of epochs", self.epochs, 1)
        check_whole("batch size", self.batch_size, 1)
        check_whole("seed", self.seed, 0)
        if self.seed >= 2**63:
            raise ValueError(f"The seed is {self.seed}. Give one below 2**63.")
        check_whole("gradient accumulation", self.accumulation, 1)
        check_whole("data-loader workers", self.loader_workers, 0)
        check_whole("number of warm-up steps", self.warmup_steps, 0)
        check_whole("number of micro-batches", self.micro_batches, 1)
        if self.learning_rate is not None:
            check_positive("learning rate", self.learning_rate)
        if self.weight_decay is not None and self.weight_decay != 0:
            check_positive("weight decay", self.weight_decay)
        if self.gradient_clip is not None:
            check_positive("limit of the gradient's norm", self.gradient_clip)
        if self.patience is not None:
            check_whole("patience of early stopping", self.patience, 1)
        check_one_of("Precision", self.precision, PRECISIONS)
        check_one_of("Schedule", self.schedule, SCHEDULES)
        for name in ("stop_on_nan", "compile"):
            check_flag(name.replace("_", " "), getattr(self, name))


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
        check_one_of("The unit of checkpoints", self.unit, CHECKPOINT_UNITS)
        check_whole("distance of checkpoints", self.every, 1)
        check_whole("number of checkpoints to keep", self.keep, 1)
        check_flag("keeping of the best checkpoint", self.best)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What to train: a Python file of plain functions, and the values of their keyword arguments."""

    name: str
    path: str
    settings: Mapping[str, SettingValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_text("recipe name", self.name)
        check_text("recipe path", self.path)
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
class StopTimeouts:
    """How long each rung of the stop ladder is given, in seconds, before the next follows."""

    ask_s: float = 10.0
    interrupt_s: float = 5.0
    terminate_s: float = 5.0

    def __post_init__(self) -> None:
        for item in fields(self):
            check_positive(f"stop ladder's {item.name}", getattr(self, item.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseWatch:
    """How the memory of the devices is watched after the run's last worker has ended."""

    tolerance_mb: int = 64
    """A device is released when it uses no more than so many MB, of 2**20 bytes, more than before the run."""
    wait_s: float = 60.0
    """It is waited for so many seconds at most; in almost all runs memory is back within one."""

    def __post_init__(self) -> None:
        check_whole("tolerance of the memory watch in MB", self.tolerance_mb, 0)
        check_positive("time that the memory watch waits", self.wait_s)


def check_whole(what: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"The {what} is {value!r}. Give a whole number of at least {least}.")


def check_positive(what: str, value: object) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise ValueError(f"The {what} is {value!r}. Give a number greater than 0.")


def check_one_of(what: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{what} {value!r} is unknown. Choose one of: {', '.join(known)}.")


def check_flag(what: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"The setting {what} is {value!r}. Give true or false.")  # noqa: TRY004


def check_text(what: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise ValueError(f"The {what} is {value!r}. Give a text that is not empty.")


EscalationSteps = tuple[tuple[str, signal.Signals | None, float | None], ...]


def escalation_steps(graces: StopTimeouts) -> EscalationSteps:
    """Name, signal and grace in seconds of each rung, mildest first."""
    return (
        ("asked", None, graces.ask_s),
        ("SIGINT", signal.SIGINT, graces.interrupt_s),
        ("SIGTERM", signal.SIGTERM, graces.terminate_s),
        ("SIGKILL", signal.SIGKILL, None),
    )
