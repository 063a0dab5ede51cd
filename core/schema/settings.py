"""The settings of a run: frozen dataclasses that check their own fields.

Also loaded inside workers: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import math
import signal
import sys
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Union

from ..language import tr

if TYPE_CHECKING:
    from collections.abc import Mapping


PRECISIONS = ("float32", "bfloat16", "float16")
SCHEDULES = ("constant", "cosine")
CROSS_DEVICE_OPS = ("auto", "nccl", "hierarchical_copy", "one_device")
GRADIENT_COMPRESSIONS = ("none", "bfloat16", "float16", "powersgd")
RATE_SCALINGS = ("none", "linear", "sqrt")
FLAGS = (
    "stop_on_nan", "compile", "training_metrics", "meta_device", "make_on_device", "activation_checkpointing",
)  # fmt: skip
"""The settings of `Training` that are on or off."""
CUDA_IDS = ("uuid", "integer")
CHECKPOINT_UNITS = ("auto", "epochs", "steps", "minutes", "never")

RECIPE_FUNCTIONS = (
    "model", "train_data", "val_data", "loss", "optimizer", "metrics", "stages", "placed_model",
    "training_step", "validation_step", "collate", "schedule", "optimizers", "on_epoch_end", "callbacks",
)  # fmt: skip
"""The functions a recipe may have; the first two it must have."""
REQUIRED_FUNCTIONS = RECIPE_FUNCTIONS[:2]
RUN_KEYWORDS = ("seed", "learning_rate", "batch_size", "epochs")
"""Keywords of a recipe's functions that take their values from the run's settings, not from the recipe's."""

DEFAULT_LEARNING_RATE = 1e-3
"""The default of Adam in torch.optim and in Keras; a recipe without an optimizer gets Adam."""

SettingValue = Union[bool, int, float, str, None]  # noqa: UP007 (evaluated, also by Python 3.10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The settings that all strategies share."""

    epochs: int = 10
    batch_size: int = 64
    """The global batch: items per optimizer step, over all devices and accumulation steps."""
    steps_per_epoch: int | None = None
    """Optimizer steps that make an epoch, not for Keras; None: all of the data. Streams of unknown length need it."""
    learning_rate: float | None = None
    """None keeps the learning rate of the recipe's optimizer."""
    seed: int = 0
    accumulation: int = 1
    """Gradient accumulation: micro-batches per device and optimizer step."""
    precision: str = "float32"
    """`float32`, or `bfloat16` or `float16` for autocast; `float16` with a scaled loss, and for PyTorch only."""
    loader_workers: int = 0
    """Data-loader worker processes per rank; 0 loads in the training process."""
    schedule: str = "constant"
    """The learning rate after the warm-up: `constant`, or `cosine` down to 0 at the last step."""
    warmup_steps: int = 0
    """Optimizer steps in which the learning rate rises linearly to its full height."""
    weight_decay: float | None = None
    """Decoupled, as in AdamW: weights shrink by rate x decay before each step. None keeps the recipe's optimizer."""
    gradient_clip: float | None = None
    """Maximum norm of the whole model's gradient over the global batch; None for no limit."""
    patience: int | None = None
    """Early stopping: epochs without a better `val_loss`, or `loss` without validation, before training ends."""
    stop_on_nan: bool = False
    """Fail at a loss that is not finite. If false, a notice reports it and training continues."""
    compile: bool = False
    """`torch.compile`, or XLA (`jit_compile`) under TensorFlow and Keras."""
    micro_batches: int = 4
    """Pipelines only: micro-batches per pass, which the stages compute at the same time."""
    training_metrics: bool = True
    """Measure the recipe's `metrics()` on training batches, too, as far as that takes at most 1 % of the time."""
    rate_scaling: str = "none"
    """How the learning rate follows the batch size from `reference_batch`: `none`, `linear` or `sqrt`."""
    reference_batch: int | None = None
    """The batch size for which the learning rate was chosen; needed where the rate is scaled."""
    cross_device_ops: str = "auto"
    """MirroredStrategy only: how gradients are added up over devices; `auto` leaves the choice to TensorFlow."""
    output_device: int = 0
    """`nn.DataParallel` only: which of the run's devices, counted from 0, gathers the outputs."""
    bucket_mb: int | None = None
    """DDP only: megabytes of gradients that are reduced at once; None keeps PyTorch's 25, the first of them 1."""
    gradient_compression: str = "none"
    """DDP only: how gradients are compressed for the reduction; anything but `none` changes the curve."""
    meta_device: bool = False
    """FSDP only: make the model on the `meta` device, so that no process ever holds the whole of it."""
    make_on_device: bool = False
    """PyTorch's single, DDP and FSDP: make the model on the device of each rank, which draws its own random numbers."""
    activation_checkpointing: bool = False
    """PyTorch only: keep the inputs of each block, and compute the block again in the backward pass."""

    def __post_init__(self) -> None:
        check_whole(tr("number of epochs"), self.epochs, 1)
        check_whole(tr("batch size"), self.batch_size, 1)
        check_whole(tr("seed"), self.seed, 0)
        if self.seed >= 2**63:
            raise ValueError(tr("The seed is {seed}. Give one below 2**63.", seed=self.seed))
        check_whole(tr("gradient accumulation"), self.accumulation, 1)
        check_whole(tr("number of data-loader workers"), self.loader_workers, 0)
        check_whole(tr("number of warm-up steps"), self.warmup_steps, 0)
        check_whole(tr("number of micro-batches"), self.micro_batches, 1)
        if self.learning_rate is not None:
            check_positive(tr("learning rate"), self.learning_rate)
        if self.weight_decay is not None and self.weight_decay != 0:
            check_positive(tr("weight decay"), self.weight_decay)
        if self.gradient_clip is not None:
            check_positive(tr("limit of the gradient norm"), self.gradient_clip)
        if self.steps_per_epoch is not None:
            check_whole(tr("number of steps per epoch"), self.steps_per_epoch, 1)
        if self.patience is not None:
            check_whole(tr("patience of early stopping"), self.patience, 1)
        check_one_of(tr("Precision"), self.precision, PRECISIONS)
        check_one_of(tr("Schedule"), self.schedule, SCHEDULES)
        check_one_of(tr("Scaling of the learning rate"), self.rate_scaling, RATE_SCALINGS)
        if self.reference_batch is not None:
            check_whole(tr("batch size that the learning rate was chosen for"), self.reference_batch, 1)
        check_one_of(tr("Reduction over devices"), self.cross_device_ops, CROSS_DEVICE_OPS)
        check_whole(tr("number of the output device"), self.output_device, 0)
        if self.bucket_mb is not None:
            check_whole(tr("size of a gradient bucket in MB"), self.bucket_mb, 1)
        check_one_of(tr("Gradient compression"), self.gradient_compression, GRADIENT_COMPRESSIONS)
        for name in FLAGS:
            check_flag(name.replace("_", " "), getattr(self, name))

    @property
    def rate_factor(self) -> float:
        """The factor by which the batch size scales the learning rate; 1 where it does not.

        `linear`: Goyal et al. 2017, "Accurate, Large Minibatch SGD". `sqrt`: Krizhevsky 2014, "One weird trick for
        parallelizing convolutional neural networks"; for Adam: Malladi et al. 2022, "On the SDEs and Scaling Rules for
        Adaptive Gradient Algorithms".
        """
        if self.rate_scaling == "none" or self.reference_batch is None:
            return 1.0
        ratio = self.batch_size / self.reference_batch
        return ratio if self.rate_scaling == "linear" else math.sqrt(ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """When a run writes checkpoints, and which it keeps. Pause and save always write one."""

    unit: str = "auto"
    """`epochs`, `steps` or `minutes`, counted by `every`; `never`; or `auto`: at ends of epochs, as long as all
    checkpoints together take at most a hundredth of the training time. All but `never` also write one at the end."""
    every: int = 1
    """Number of units between two checkpoints."""
    keep: int = 2
    """Number of latest checkpoints to keep."""
    best: bool = True
    """Whether to keep also the one with the lowest monitored loss: `val_loss`, or `loss` without validation."""

    def __post_init__(self) -> None:
        check_one_of(tr("The unit of checkpoints"), self.unit, CHECKPOINT_UNITS)
        check_whole(tr("checkpoint interval"), self.every, 1)
        check_whole(tr("number of checkpoints to keep"), self.keep, 1)
        check_flag(tr("keeping of the best checkpoint"), self.best)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A Python file of plain functions to train, and the values of their keyword arguments."""

    name: str
    path: str
    settings: Mapping[str, SettingValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_text(tr("recipe name"), self.name)
        check_text(tr("recipe path"), self.path)
        for name, value in self.settings.items():
            if not isinstance(value, (bool, int, float, str, type(None))):
                raise ValueError(  # noqa: TRY004
                    tr(
                        "Setting {name!r} is {value!r}. Give a number, a text, true, false or null.",
                        name=name,
                        value=value,
                    )
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A program that trains by itself, started as from a shell."""

    path: str = ""
    """A Python file, or a folder with a `__main__.py`; absolute."""
    module: str = ""
    """The name of a module, `python -m NAME`, in place of `path`."""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables in addition to those with which the run was started."""
    inherited: tuple[str, ...] = ()
    """Names of environment variables that must be set when the run is started. Their values, such as secrets, are not
    stored."""
    expression: str = ""
    """A regular expression with named groups that reads metrics from the output; empty for the built-in parsers."""
    rules: tuple[str, ...] = ()
    """What the numbers of certain lines are: see `core.metrics.rules.rule`."""
    rules_file: str = ""
    """Where the user chose to keep these rules; empty for beside the script, `none` for no rules."""

    def __post_init__(self) -> None:
        if bool(self.path) == bool(self.module):
            raise ValueError(tr("A script is given either as a file or as a module. Give one of them."))
        if any("\0" in argument for argument in self.arguments):
            raise ValueError(
                tr("The script's arguments are {arguments!r}. Give texts without zero bytes.", arguments=self.arguments)
            )
        for name in (*self.environment, *self.inherited):
            if not name or "=" in name or "\0" in name:
                raise ValueError(tr("{name!r} cannot be a variable of the environment. Give NAME=VALUE.", name=name))

    @property
    def name(self) -> str:
        """The name of the module, or of the file."""
        return self.module or self.path.rstrip("/").rpartition("/")[2]

    @property
    def command(self) -> tuple[str, ...]:
        """The command line after the interpreter."""
        return ("-m", self.module, *self.arguments) if self.module else (self.path, *self.arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTimeouts:
    """Seconds that each step of a stop has before the next step follows."""

    ask_s: float = 10.0
    interrupt_s: float = 5.0
    terminate_s: float = 5.0

    def __post_init__(self) -> None:
        for item in fields(self):
            option = f"--{item.name.removesuffix('_s')}-timeout"
            check_positive(tr("stop timeout ({option})", option=option), getattr(self, item.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseWatch:
    """When the memory of a device counts as released after the run's last worker has exited."""

    tolerance_mb: int = 64
    """Maximum extra memory, in MB of 2**20 bytes, at which a device still counts as released."""
    wait_s: float = 60.0
    """Maximum seconds to wait for the memory; in almost all runs it is back within one."""

    def __post_init__(self) -> None:
        check_whole(tr("tolerance of the memory watch in MB"), self.tolerance_mb, 0)
        check_positive(tr("time that the memory watch waits (--release-wait)"), self.wait_s)


def check_whole(what: str, value: object, minimum: int) -> None:
    """Raise `ValueError` with a sentence unless this is a whole number of at least `minimum`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise ValueError(
            tr(
                "The {what} is {value!r}. Give a whole number of at least {minimum}.",
                what=what,
                value=value,
                minimum=minimum,
            )
        )


def check_positive(what: str, value: object) -> None:
    """Raise `ValueError` with a sentence unless this is a finite number above 0."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value <= sys.float_info.max:
        raise ValueError(tr("The {what} is {value!r}. Give a number greater than 0.", what=what, value=value))


def check_one_of(what: str, value: object, known: tuple[str, ...]) -> None:
    """Raise `ValueError` with a sentence unless this is one of the known texts."""
    if value not in known:
        raise ValueError(
            tr("{what} {value!r} is unknown. Choose one of: {known}.", what=what, value=value, known=", ".join(known))
        )


def check_flag(what: str, value: object) -> None:
    """Raise `ValueError` with a sentence unless this is true or false."""
    if not isinstance(value, bool):
        raise ValueError(tr("The setting {what} is {value!r}. Give true or false.", what=what, value=value))  # noqa: TRY004


def check_text(what: str, value: object) -> None:
    """Raise `ValueError` with a sentence unless this is a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError(tr("The {what} is {value!r}. Give a text that is not empty.", what=what, value=value))


EscalationSteps = tuple[tuple[str, signal.Signals | None, float | None], ...]


def escalation_steps(timeouts: StopTimeouts) -> EscalationSteps:
    """Return name, signal and timeout in seconds of each step of a stop, mildest first."""
    return (
        ("asked", None, timeouts.ask_s),
        ("SIGINT", signal.SIGINT, timeouts.interrupt_s),
        ("SIGTERM", signal.SIGTERM, timeouts.terminate_s),
        ("SIGKILL", signal.SIGKILL, None),
    )
