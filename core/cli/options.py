"""The options of the command line. `core.cli.parse_choices` turns those of `run` into choices."""

from __future__ import annotations

import argparse
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from core.catalog.frameworks import FRAMEWORKS
from core.catalog.strategies import LAUNCH_MODES, STRATEGIES, strategies_of
from core.config.choices import INTERRUPT_S
from core.history import index
from core.language import tr, tr_noop, tr_plural
from core.launchers.loopback import ALLOW
from core.schema.settings import (
    CROSS_DEVICE_OPS,
    CUDA_IDS,
    GRADIENT_COMPRESSIONS,
    PRECISIONS,
    RATE_SCALINGS,
    SCHEDULES,
    Checkpoints,
    ReleaseWatch,
    StopTimeouts,
    Training,
)
from core.text import join_names, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WRONG_USE = 2
TRAINING = (
    "epochs", "batch_size", "steps_per_epoch", "learning_rate", "seed", "accumulation", "precision", "loader_workers",
    "schedule", "warmup_steps", "weight_decay", "gradient_clip", "patience", "stop_on_nan", "compile", "micro_batches",
    "training_metrics", "rate_scaling", "reference_batch", "cross_device_ops", "output_device", "bucket_mb",
    "gradient_compression", "meta_device", "make_on_device", "activation_checkpointing",
)  # fmt: skip
"""The options that are fields of `Training`; None for those that were not given."""


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in plain sentences, without the usage. Options cannot be abbreviated."""

    def __init__(self, *, add_help: bool = True, **given: Any) -> None:  # noqa: ANN401 (as the base class)
        super().__init__(allow_abbrev=False, add_help=False, formatter_class=_HelpFormatter, **given)
        if add_help:
            self.add_argument("-h", "--help", action="help", help=tr("show this help message and exit"))

    def error(self, message: str) -> NoReturn:
        """Exit with the sentences for one of argparse's messages."""
        self.exit(WRONG_USE, tr("trainyard: {plain} See {prog} --help.\n", plain=_plain(message), prog=self.prog))

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """Exit with the sentences for arguments that this parser does not have."""
        from difflib import get_close_matches  # the window, which is never refused, starts without it

        unknown = tr_plural(
            "{words} is not an argument of {prog}.",
            "{words} are not arguments of {prog}.",
            len(words),
            words=" ".join(words),
            prog=self.prog,
        )
        if alike := get_close_matches(words[0], self._option_string_actions, n=1, cutoff=0.8):
            hint = tr(" Did you mean {option}?", option=alike[0])
        else:
            hint = tr(" Arguments for your own script come after --.") if self.prog.split()[1:] == ["run"] else ""
        self.exit(
            WRONG_USE, tr("trainyard: {unknown}{hint} See {prog} --help.\n", unknown=unknown, hint=hint, prog=self.prog)
        )


class _HelpFormatter(argparse.HelpFormatter):
    """Write the help in the language in use; a Chinese character takes two columns."""

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None = None,
    ) -> None:
        super().add_usage(usage, actions, groups, tr("usage: ") if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        super().start_section(heading and tr(heading))

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line for line in wrap(text, width - len(indent)))


HEADINGS = (tr_noop("positional arguments"), tr_noop("options"))
"""The headings that argparse gives."""

_PLAIN = (
    (r"argument COMMAND: invalid choice: (?P<given>'.*?') .*", tr_noop("There is no command {given}.")),
    (r"argument (?P<name>\S+): invalid int value: (?P<given>.*)", tr_noop("{name} is {given}. Give a whole number.")),
    (r"argument (?P<name>\S+): invalid float value: (?P<given>.*)", tr_noop("{name} is {given}. Give a number.")),
    (
        r"argument (?P<name>\S+): invalid choice: (?P<given>'.*?') \(choose from (?P<known>.*)\)",
        tr_noop("{name} is {given}. Choose one of: {known}."),
    ),
    (r"argument (?P<name>\S+): expected one argument", tr_noop("{name} needs a value.")),
    (r"argument (?P<name>\S+): ignored explicit argument .*", tr_noop("{name} takes no value.")),
    (r"the following arguments are required: (?P<names>.*)", tr_noop("Missing: {names}.")),
)
"""Messages of argparse, and plain sentences in their place."""


def _plain(message: str) -> str:
    for pattern, sentence in _PLAIN:
        if found := re.fullmatch(pattern, message, re.DOTALL):
            return tr(sentence, **found.groupdict())
    return f"{message[:1].upper()}{message[1:]}."


def common() -> Parser:
    """Return the options of all commands. They have no default here, so that they may also precede the command."""
    parser = Parser(add_help=False)
    parser.add_argument(
        "--runs", type=Path, default=argparse.SUPPRESS, metavar="DIR",
        help=tr("the folder of the runs; default: {default_root}", default_root=index.default_root()),
    )  # fmt: skip
    return parser


def window_options() -> Parser:
    """Return the options without a command, which opens the window."""
    parser = Parser(prog="trainyard", parents=[common()], add_help=False)
    add_host(parser)
    return parser


def add_host(parser: argparse.ArgumentParser) -> None:
    """Add the option that opens the window on another machine."""
    parser.add_argument(
        "--host", default=argparse.SUPPRESS, metavar="HOST",
        help=tr("open the window on the runs of another machine: USER@HOST, or a name that `trainyard hosts` lists"),
    )  # fmt: skip


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run`."""
    _add_choices(parser)
    _add_name(parser)
    _add_script(parser)
    _add_training(parser)
    _add_checkpoints(parser)
    _add_stop(parser)
    _add_release(parser)
    add_detach(parser)


def add_recipe_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run` that are for recipes, without `--name`: those of a command that starts several runs."""
    _add_choices(parser)
    _add_training(parser)
    _add_checkpoints(parser)
    _add_stop(parser)
    _add_release(parser)
    # `parse_choices.choices` also reads those for scripts and presets.
    parser.set_defaults(script=None, module=None, setup=None, cwd=None, env=[], launch=None, expression="", rules="")


def _add_choices(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    frameworks = _one_of(row.id for row in FRAMEWORKS)
    strategies = "; ".join(f"{row.title}: {_one_of(each.name for each in strategies_of(row.id))}" for row in FRAMEWORKS)
    add("recipe", metavar="RECIPE", nargs="?", help=tr("name of a built-in recipe, or a Python file"))
    add("--framework", help=tr("{frameworks}; default: pytorch", frameworks=frameworks))
    add("--strategy", help=tr("{strategies}; default: one that fits the number of devices", strategies=strategies))
    add("--devices", default="", metavar="ID,ID", help=tr("ids that `trainyard devices` lists, or gpu:0 for GPU 0"))
    add(
        "--cuda-ids",
        default=CUDA_IDS[0],
        help=tr("how GPUs are named in CUDA_VISIBLE_DEVICES: {cuda_ids}; default: uuid", cuda_ids=_one_of(CUDA_IDS)),
    )
    add_open_ports(parser)
    add("--set", action="append", default=[], metavar="NAME=VALUE", help=tr("a setting of the recipe; can be repeated"))
    add(
        "--python", metavar="PATH",
        help=tr("the Python that trains (`trainyard pythons` lists them); default: for a recipe, one that has the "
        "framework; for a script, the active environment, or one next to the script, or Trainyard's own"),
    )  # fmt: skip


def _add_name(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--name", help=tr("name of the run; default: the recipe's name"))
    add("--setup", metavar="NAME", help=tr("a preset that `trainyard keep` saved; takes only --devices and --name"))


def _add_script(parser: argparse.ArgumentParser) -> None:
    parser.epilog = tr("Arguments after -- are passed to the script.")
    add = parser.add_argument_group(tr("your own program, instead of a recipe")).add_argument
    modes = _one_of(mode.name for mode in LAUNCH_MODES)
    add("--script", metavar="FILE", help=tr("a Python program that trains; it is run unchanged"))
    add("--module", metavar="NAME", help=tr("a module to run, as with python -m NAME"))
    add("--cwd", metavar="DIR", help=tr("the folder to run it in; default: the current folder"))
    add(
        "--env", action="append", default=[], metavar="NAME=VALUE",
        help=tr("an environment variable; NAME alone takes the value from the environment at each start, and does not "
        "store it; can be repeated"),
    )  # fmt: skip
    add(
        "--launch", metavar="HOW",
        help=tr("{modes}: one process that sees all devices, or one process per device as with torchrun; "
        "default: chosen from the source", modes=modes),
    )  # fmt: skip
    add(
        "--expression", default="", metavar="REGEX",
        help=tr("how to read metrics from the log: "
                "a regular expression with a named group for each, as (?P<loss>\\S+)"),
    )  # fmt: skip
    add(
        "--rules", default="", metavar="FILE",
        help=tr("rules for reading the log, as `trainyard try RUN --point` makes them; default: SCRIPT.rules.json "
                "beside the script, if there is one; none: no rules"),
    )  # fmt: skip


def _add_training(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(tr("training"))
    _add_learning(group)
    _add_computation(group)
    _add_rate_scaling(group)
    _add_distribution(parser.add_argument_group(tr("training on several devices")))


def _add_learning(group: argparse._ArgumentGroup) -> None:
    """Add the options that change what is learned."""
    add, usual = group.add_argument, Training()
    whole, number = partial(add, type=int, metavar="N"), partial(add, type=float, metavar="X")
    schedules = _one_of(SCHEDULES)
    whole("--epochs", help=tr("number of epochs; default: {epochs}", epochs=usual.epochs))
    whole("--batch-size", help=tr("global batch size, over all devices; default: {size}", size=usual.batch_size))
    whole("--steps-per-epoch", help=tr("optimizer steps that make an epoch, not for Keras; default: all of the data"))
    number("--learning-rate", help=tr("default: the recipe's"))
    add(
        "--schedule",
        help=tr("learning rate schedule: {known}; default: {usual}", known=schedules, usual=usual.schedule),
    )
    whole("--warmup-steps", help=tr("learning rate warm-up steps; default: {steps}", steps=usual.warmup_steps))
    number("--weight-decay", help=tr("weight decay as in AdamW (decoupled); default: the optimizer's"))
    number("--gradient-clip", help=tr("maximum norm of the whole gradient; default: no limit"))
    whole("--patience", help=tr("stop early after N epochs without a better loss; default: never"))
    whole("--seed", help=tr("random seed; default: {seed}", seed=usual.seed))
    add("--stop-on-nan", action="store_true", default=None, help=tr("fail if the loss is NaN or infinite"))
    add(
        "--training-metrics", action=argparse.BooleanOptionalAction, default=None,
        help=tr("measure the recipe's metrics on training batches, too; default: yes, in at most a hundredth of"
            " the time"),
    )  # fmt: skip


def _add_computation(group: argparse._ArgumentGroup) -> None:
    """Add the options that change how a step is computed."""
    add, usual = group.add_argument, Training()
    whole = partial(add, type=int, metavar="N")
    precisions = _one_of(PRECISIONS)
    whole("--accumulation", help=tr("gradient accumulation steps; default: {steps}", steps=usual.accumulation))
    whole(
        "--micro-batches",
        help=tr("for strategy pipeline: micro-batches per pass; default: {count}", count=usual.micro_batches),
    )
    add(
        "--precision",
        help=tr("number format of the computation: {known}; default: {usual}", known=precisions, usual=usual.precision),
    )
    whole(
        "--loader-workers",
        help=tr("data-loader processes per rank, PyTorch only; default: {count}", count=usual.loader_workers),
    )
    compile_help = tr("compile the model: {compilers}", compilers=_compilers())
    add("--compile", action="store_true", default=None, help=compile_help)


def _add_rate_scaling(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--rate-scaling",
        help=tr(
            "scale the learning rate by batch size / reference batch (linear), or its root (sqrt): {known}; "
            "default: none; give --warmup-steps, too",
            known=_one_of(RATE_SCALINGS),
        ),
    )
    group.add_argument(
        "--reference-batch", type=int, metavar="N", help=tr("the batch size for which the learning rate was chosen")
    )


def _add_distribution(group: argparse._ArgumentGroup) -> None:
    """Add the options that only some strategies have."""
    add = group.add_argument
    whole, flag = partial(add, type=int, metavar="N"), partial(add, action="store_true", default=None)
    add(
        "--cross-device-ops",
        help=tr("for strategy mirrored: how gradients are added up, {known}; default: auto",
                known=_one_of(CROSS_DEVICE_OPS)),
    )  # fmt: skip
    whole(
        "--output-device",
        help=tr("for strategy data_parallel: which of the run's devices, counted from 0, gathers the outputs; "
                "default: 0"),
    )  # fmt: skip
    whole("--bucket-mb", help=tr("for strategy ddp: megabytes of gradients per reduction; default: PyTorch's 25"))
    add(
        "--gradient-compression",
        help=tr("for strategy ddp: {known}; changes the curve; default: none", known=_one_of(GRADIENT_COMPRESSIONS)),
    )
    flag("--meta-device", help=tr("for strategy fsdp: make the model in shards, for one larger than the memory"))
    flag(
        "--make-on-device",
        help=tr("for PyTorch's single, ddp and fsdp: make the model on its device, not in the host's memory"),
    )
    flag(
        "--activation-checkpointing",
        help=tr("for PyTorch's single, ddp and fsdp: compute each block again in the backward pass, to save memory"),
    )


def _compilers() -> str:
    """Return `torch.compile for PyTorch, XLA for TensorFlow and Keras`."""
    titles: dict[str, list[str]] = {}
    for row in FRAMEWORKS:
        titles.setdefault(row.compiler, []).append(row.title)
    rows = titles.items()
    return ", ".join(tr("{compiler} for {names}", compiler=each, names=join_names(names)) for each, names in rows)


def _add_checkpoints(parser: argparse.ArgumentParser) -> None:
    add, usual = parser.add_argument_group(tr("checkpoints")).add_argument, Checkpoints()
    add(
        "--checkpoint-every", metavar="TEXT",
        help=tr("epoch, '5 epochs', '100 steps', '10 minutes', auto or never; default: auto, which costs little time"),
    )  # fmt: skip
    add(
        "--keep-checkpoints", type=int, metavar="N",
        help=tr("number of latest checkpoints to keep; default: {keep}", keep=usual.keep),
    )  # fmt: skip
    add(
        "--keep-best", action=argparse.BooleanOptionalAction, default=None,
        help=tr("also keep the checkpoint with the lowest val_loss (loss, without validation); default: yes"),
    )  # fmt: skip


def _add_stop(parser: argparse.ArgumentParser) -> None:
    group, usual = parser.add_argument_group(tr("stop")), StopTimeouts()
    seconds = partial(group.add_argument, type=float, metavar="SECONDS")
    seconds(
        "--ask-timeout",
        help=tr("time from the request to stop until SIGINT, recipes only; default: {ask_s:g}", ask_s=usual.ask_s),
    )
    seconds(
        "--interrupt-timeout",
        help=tr(
            "time from SIGINT until SIGTERM; default: {recipe_s:g}, for scripts {script_s:g}",
            recipe_s=usual.interrupt_s, script_s=INTERRUPT_S,
        ),
    )  # fmt: skip
    seconds(
        "--terminate-timeout",
        help=tr("time from SIGTERM until SIGKILL; default: {terminate_s:g}", terminate_s=usual.terminate_s),
    )


def _add_release(parser: argparse.ArgumentParser) -> None:
    add, usual = parser.add_argument_group(tr("device memory after training")).add_argument, ReleaseWatch()
    add(
        "--release-wait", type=float, metavar="SECONDS",
        help=tr("maximum time to wait for the devices' memory after training; default: {wait_s:g}",
                wait_s=usual.wait_s),
    )  # fmt: skip
    add(
        "--release-tolerance", type=int, metavar="MB",
        help=tr("maximum extra memory at which a device still counts as released; default: {tolerance_mb}",
                tolerance_mb=usual.tolerance_mb),
    )  # fmt: skip


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add the option of the commands that execute what a run or a preset names."""
    parser.add_argument(
        "--yes", action="store_true", help=tr("do not ask when the run or preset belongs to another user")
    )


def add_open_ports(parser: argparse.ArgumentParser) -> None:
    """Add the option of the commands that start or resume a run with open ports."""
    opening = _one_of(row.name for row in STRATEGIES if row.needs_addresses)
    parser.add_argument(
        ALLOW, action="store_true", default=None,
        help=tr("for {opening}: run it although other users can connect to its ports without a password",
                opening=opening),
    )  # fmt: skip


def add_detach(parser: argparse.ArgumentParser) -> None:
    """Add the option of the commands that start or resume a run."""
    parser.add_argument("--detach", action="store_true", help=tr("return at once and leave the run in the background"))


def _one_of(names: Iterable[str]) -> str:
    return join_names(names, "or")
