"""The settings of a run: frozen dataclasses whose fields are described once (`core.schema.setting`)."""

from __future__ import annotations

import math
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Union

from ..language import tr, tr_noop
from .setting import RECIPE, Flag, Number, OneOf, Whole, check_settings, setting, settings_of

if TYPE_CHECKING:
    from collections.abc import Mapping


PRECISIONS = ("float32", "bfloat16", "float16")
CUDA_IDS = {"uuid": tr_noop("by UUID"), "integer": tr_noop("by number")}
COUNTED = ("epochs", "steps", "minutes")
"""The units of checkpoints that have an interval."""

TRAINING, OPTIMIZER, EARLY_STOPPING = tr_noop("training"), tr_noop("optimizer"), tr_noop("early stopping")
COMPUTING, DEVICES = tr_noop("computing"), tr_noop("devices and memory")
CHECKPOINTS, STOP, RELEASE = tr_noop("checkpoints"), tr_noop("stop"), tr_noop("memory after the end")
GPUS = tr_noop("GPUs")
"""The groups of settings."""
OF_SCRIPTS = (EARLY_STOPPING, STOP, RELEASE, GPUS)
"""The groups that scripts have, too."""

RECIPE_FUNCTIONS = (
    "model", "train_data", "val_data", "loss", "optimizer", "metrics", "stages", "placed_model", "probe_data",
    "training_step", "validation_step", "collate", "schedule", "optimizers", "on_epoch_end", "callbacks",
)
"""The functions a recipe may have; the first two it must have."""
REQUIRED_FUNCTIONS = RECIPE_FUNCTIONS[:2]
RUN_KEYWORDS = ("seed", "learning_rate", "batch_size", "epochs")
"""Keywords of a recipe's functions that take their values from the run's settings, not from the recipe's."""

DEFAULT_LEARNING_RATE = 1e-3
"""The default of Adam in torch.optim and in Keras; a recipe without an optimizer gets Adam."""

SettingValue = Union[bool, int, float, str, None]  # noqa: UP007 (evaluated, also by Python 3.10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The settings of all recipes. Scripts have those of the groups `OF_SCRIPTS`."""

    epochs: int = setting(
        10, Whole(1), group=TRAINING, title=tr_noop("Epochs"), help=tr_noop("number of passes over the training data")
    )
    batch_size: int = setting(
        64, Whole(1), group=TRAINING, title=tr_noop("Global batch"),
        help=tr_noop("items per optimizer step, over all devices and accumulation steps"),
    )
    learning_rate: float | None = setting(
        None, Number(), group=TRAINING, title=tr_noop("Learning rate"), none=tr_noop("from the recipe"),
        help=tr_noop("step size of the optimizer"),
    )

    schedule: str = setting(
        "constant", OneOf({"constant": tr_noop("constant"), "cosine": tr_noop("cosine")}), group=OPTIMIZER,
        title=tr_noop("Schedule"),
        help=tr_noop("learning rate after the warm-up: constant, or half a cosine down to 0 at the last step"),
    )
    warmup_steps: int = setting(
        0, Whole(0), group=OPTIMIZER, title=tr_noop("Warm-up steps"),
        help=tr_noop("optimizer steps in which the learning rate rises linearly to its full value"),
    )
    rate_scaling: str = setting(
        "none", OneOf({"none": tr_noop("off"), "linear": tr_noop("linear"), "sqrt": tr_noop("square root")}),
        group=OPTIMIZER, title=tr_noop("Learning rate scaling"),
        help=tr_noop("multiply the learning rate by global batch / reference batch, as for SGD (Goyal et al. 2017), or "
                     "by the square root of that, as for Adam; needs a reference batch; give warm-up steps, too"),
    )
    reference_batch: int | None = setting(
        None, Whole(1), group=OPTIMIZER, title=tr_noop("Reference batch"), none=tr_noop("none"),
        help=tr_noop("global batch for which the learning rate was chosen"),
    )
    weight_decay: float | None = setting(
        None, Number(zero=True), group=OPTIMIZER, title=tr_noop("Weight decay"), none=tr_noop("from the recipe"),
        help=tr_noop("weights shrink by rate × decay before each step (decoupled, as in AdamW)"),
    )
    gradient_clip: float | None = setting(
        None, Number(), group=OPTIMIZER, title=tr_noop("Gradient clipping"), none=tr_noop("off"),
        help=tr_noop("maximum norm of the gradient of the whole model, over the global batch"),
    )

    patience: int | None = setting(
        None, Whole(1), group=EARLY_STOPPING, title=tr_noop("Patience in epochs"), none=tr_noop("off"), only=(RECIPE,),
        help=tr_noop("stop after this many epochs without a better val_loss (loss, without validation)"),
    )
    stop_on_nan: bool = setting(
        False, Flag(), group=EARLY_STOPPING, title=tr_noop("Stop on NaN"),
        help=tr_noop("stop and fail when the loss becomes NaN or infinite; otherwise only a warning is shown"),
    )

    precision: str = setting(
        "float32", OneOf({each: each for each in PRECISIONS}), group=COMPUTING, title=tr_noop("Precision"),
        help=tr_noop("number format of the computation; bfloat16 and float16 use half the memory where possible "
                     "(autocast), float16 scales the loss"),
    )
    accumulation: int = setting(
        1, Whole(1), group=COMPUTING, title=tr_noop("Accumulation"),
        help=tr_noop("parts per device and optimizer step, computed one after the other; more parts need less memory"),
    )
    micro_batches: int = setting(
        4, Whole(1), group=COMPUTING, title=tr_noop("Micro-batches"), only=("pytorch.pipeline",),
        help=tr_noop("parts of a batch that the stages of the pipeline compute at the same time"),
    )
    training_metrics: bool = setting(
        True, Flag(), group=COMPUTING, title=tr_noop("Training metrics"),
        help=tr_noop("measure the recipe's metrics on training batches, too, in at most 1 % of the time"),
    )
    steps_per_epoch: int | None = setting(
        None, Whole(1), group=COMPUTING, title=tr_noop("Steps per epoch"), none=tr_noop("all of the data"),
        only=("pytorch", "tensorflow"),
        help=tr_noop("optimizer steps that make an epoch; a stream of unknown length needs it"),
    )
    loader_workers: int = setting(
        0, Whole(0), group=COMPUTING, title=tr_noop("Data-loader workers"), only=("pytorch",),
        help=tr_noop("processes per rank that load data; with 0 the training process loads them"),
    )
    seed: int = setting(
        0, Whole(0, 2**63 - 1), group=COMPUTING, title=tr_noop("Seed"),
        help=tr_noop("random seed of shuffling, splitting and initial weights"),
    )
    compile: bool = setting(
        False, Flag(), group=COMPUTING, title=tr_noop("Compile"),
        help=tr_noop("compile the model (torch.compile for PyTorch, XLA for TensorFlow and Keras): the first steps "
                     "take longer, later steps may be faster"),
    )

    cross_device_ops: str = setting(
        "auto", OneOf({"auto": tr_noop("auto"), "nccl": "NCCL", "hierarchical_copy": tr_noop("hierarchical copy"),
                       "one_device": tr_noop("on one device")}),
        group=DEVICES, title=tr_noop("Reduction over devices"), only=("tensorflow.mirrored", "keras.mirrored"),
        help=tr_noop("how MirroredStrategy adds up gradients; nccl is for GPUs only"),
    )
    output_device: int = setting(
        0, Whole(0), group=DEVICES, title=tr_noop("Output device"), only=("pytorch.data_parallel",),
        help=tr_noop("which of the run's devices gathers the outputs and computes the loss, counted from 0"),
    )
    bucket_mb: int | None = setting(
        None, Whole(1), group=DEVICES, title=tr_noop("Gradient buckets in MB"), only=("pytorch.ddp",),
        none=tr_noop("PyTorch's 25"),
        help=tr_noop("gradients that are reduced at once, while others are computed; by default, the first bucket has "
                     "1 MB"),
    )
    gradient_compression: str = setting(
        "none", OneOf({"none": tr_noop("off"), "bfloat16": "bfloat16", "float16": "float16", "powersgd": "PowerSGD"}),
        group=DEVICES, title=tr_noop("Gradient compression"), only=("pytorch.ddp",),
        help=tr_noop("send fewer bytes per gradient; changes the curve; bfloat16 is for GPUs only"),
    )
    meta_device: bool = setting(
        False, Flag(), group=DEVICES, title=tr_noop("Meta device"), only=("pytorch.fsdp",),
        help=tr_noop("make the model in shards, so that no process ever holds the whole of it; its weights stay the "
                     "same"),
    )
    make_on_device: bool = setting(
        False, Flag(), group=DEVICES, title=tr_noop("Model made on its device"),
        only=("pytorch.single", "pytorch.ddp", "pytorch.fsdp"),
        help=tr_noop("make the model in the memory of each rank's device, not of the host; a GPU draws other random "
                     "numbers than the CPU, so its first weights are others"),
    )
    activation_checkpointing: bool = setting(
        False, Flag(), group=DEVICES, title=tr_noop("Activation checkpointing"),
        only=("pytorch.single", "pytorch.ddp", "pytorch.fsdp"),
        help=tr_noop("keep only the inputs of each block, and compute the block again in the backward pass: less "
                     "memory, about a third more computing"),
    )

    def __post_init__(self) -> None:
        check_settings(self)

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

    unit: str = setting(
        "auto", OneOf({"auto": tr_noop("automatic"), "epochs": tr_noop("epochs"), "steps": tr_noop("steps"),
                       "minutes": tr_noop("minutes"), "never": tr_noop("only on request")}),
        group=CHECKPOINTS, title=tr_noop("Save checkpoints"), option=None,
        help=tr_noop("automatic: at the end of an epoch, using at most 1 % of the time. Pause and Save now always "
                     "write a checkpoint"),
    )
    every: int = setting(
        1, Whole(1), group=CHECKPOINTS, title=tr_noop("Checkpoint interval"), option=None,
        help=tr_noop("epochs, steps or minutes between two checkpoints"),
    )
    keep: int = setting(
        2, Whole(1), group=CHECKPOINTS, title=tr_noop("Keep the latest"), option="keep-checkpoints",
        help=tr_noop("number of latest checkpoints to keep"),
    )
    best: bool = setting(
        True, Flag(), group=CHECKPOINTS, title=tr_noop("Keep the best"), option="keep-best",
        help=tr_noop("also keep the checkpoint with the lowest val_loss (loss, without validation); a new best is "
                     "saved at once if that takes at most 5 % of the time"),
    )

    def __post_init__(self) -> None:
        check_settings(self)


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
    """What the numbers of certain lines are: see `core.metrics.rules`."""
    rules_file: str = ""
    """Where the user chose to keep these rules; empty for beside the script, `none` for no rules."""

    def __post_init__(self) -> None:
        if bool(self.path) == bool(self.module):
            raise ValueError(tr("A script is given either as a file or as a module. Give one of them."))
        if any("\0" in argument for argument in self.arguments):
            raise ValueError(
                tr("The script's arguments are {arguments!r}. Give texts without zero bytes.", arguments=self.arguments)
            )
        for text in (self.path, *self.arguments):
            if any("\ud800" <= letter <= "\udfff" for letter in text):  # bytes that are no text: a run is kept as text
                raise ValueError(tr("The name {name!r} is not UTF-8, so a run cannot have it. Rename it.", name=text))
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

    ask_s: float = setting(
        10.0, Number(metavar="SECONDS"), group=STOP, title=tr_noop("Seconds until SIGINT"),
        option="ask-timeout", only=(RECIPE,), help=tr_noop("time from the request to stop until SIGINT"),
    )
    interrupt_s: float = setting(
        5.0, Number(metavar="SECONDS"), group=STOP, title=tr_noop("Seconds until SIGTERM"),
        option="interrupt-timeout", script_default=30.0,
        help=tr_noop("time from SIGINT until SIGTERM; many programs save when they get SIGINT"),
    )
    terminate_s: float = setting(
        5.0, Number(metavar="SECONDS"), group=STOP, title=tr_noop("Seconds until SIGKILL"),
        option="terminate-timeout", help=tr_noop("time from SIGTERM until SIGKILL"),
    )

    def __post_init__(self) -> None:
        check_settings(self)

    @classmethod
    def usual(cls, *, is_script: bool) -> StopTimeouts:
        """Return the defaults for a script or a recipe."""
        rows = settings_of(cls).items()
        return cls(**{name: row.script_default if is_script else row.default for name, row in rows})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseWatch:
    """When the memory of a device counts as released after the run's last worker has exited."""

    tolerance_mb: int = setting(
        64, Whole(0, metavar="MB"), group=RELEASE, title=tr_noop("Memory tolerance in MB"), option="release-tolerance",
        help=tr_noop("a device counts as released when it uses at most this much more memory than before the run, in "
                     "MB of 2**20 bytes"),
    )
    wait_s: float = setting(
        60.0, Number(metavar="SECONDS"), group=RELEASE, title=tr_noop("Memory wait in seconds"),
        option="release-wait",
        help=tr_noop("maximum time to wait for the devices' memory after training; it is usually back within a second"),
    )

    def __post_init__(self) -> None:
        check_settings(self)


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
