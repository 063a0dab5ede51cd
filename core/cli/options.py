"""The options of the command line. `core.cli.parse_choices` turns those of `run` into choices."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from core.catalog.frameworks import FRAMEWORKS
from core.catalog.strategies import LAUNCH_MODES, STRATEGIES, strategies_of
from core.launchers.loopback import ALLOW
from core.runs import index
from core.schema.settings import CUDA_IDS, PRECISIONS, SCHEDULES, Checkpoints, ReleaseWatch, Training
from core.text import join_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WRONG_USE = 2
TRAINING = (
    "epochs", "batch_size", "learning_rate", "seed", "accumulation", "precision", "loader_workers", "schedule",
    "warmup_steps", "weight_decay", "gradient_clip", "patience", "stop_on_nan", "compile", "micro_batches",
)  # fmt: skip
"""The options that are fields of `Training`; None for those that were not given."""


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in plain sentences, without the usage. Options cannot be abbreviated."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 (as the base class)
        super().__init__(allow_abbrev=False, **given)

    def error(self, message: str) -> NoReturn:
        """Exit with the sentences for one of argparse's messages."""
        self.exit(WRONG_USE, f"trainyard: {_plain(message)} See {self.prog} --help.\n")

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """Exit with the sentences for arguments that this parser does not have."""
        hint = " Arguments for your own script come after --." if self.prog.split()[1:] == ["run"] else ""
        what = "an argument" if len(words) == 1 else "arguments"
        are = "is" if len(words) == 1 else "are"
        self.exit(
            WRONG_USE, f"trainyard: {' '.join(words)} {are} not {what} of {self.prog}.{hint} See {self.prog} --help.\n"
        )


_PLAIN = (
    (r"argument COMMAND: invalid choice: ('.*?') .*", r"There is no command \1."),
    (r"argument (\S+): invalid int value: (.*)", r"\1 is \2. Give a whole number."),
    (r"argument (\S+): invalid float value: (.*)", r"\1 is \2. Give a number."),
    (r"argument (\S+): invalid choice: ('.*?') \(choose from (.*)\)", r"\1 is \2. Choose one of: \3."),
    (r"argument (\S+): expected one argument", r"\1 needs a value."),
    (r"argument (\S+): ignored explicit argument .*", r"\1 takes no value."),
    (r"the following arguments are required: (.*)", r"Missing: \1."),
)
"""Messages of argparse, and plain sentences in their place."""


def _plain(message: str) -> str:
    for pattern, sentence in _PLAIN:
        if found := re.fullmatch(pattern, message, re.DOTALL):
            return found.expand(sentence)
    return f"{message[:1].upper()}{message[1:]}."


def common() -> Parser:
    """Return the options of all commands. They have no default here, so that they may also precede the command."""
    parser = Parser(add_help=False)
    parser.add_argument(
        "--runs", type=Path, default=argparse.SUPPRESS, metavar="DIR",
        help=f"the folder of the runs; default: {index.default_root()}",
    )  # fmt: skip
    return parser


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run`."""
    _add_choices(parser)
    _add_script(parser)
    _add_training(parser)
    _add_checkpoints(parser)
    _add_release(parser)
    add_detach(parser)


def _add_choices(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    frameworks = _one_of(row.id for row in FRAMEWORKS)
    strategies = "; ".join(f"{row.title}: {_one_of(each.name for each in strategies_of(row.id))}" for row in FRAMEWORKS)
    add("recipe", metavar="RECIPE", nargs="?", help="name of a built-in recipe, or a Python file")
    add("--framework", help=f"{frameworks}; default: pytorch")
    add("--strategy", help=f"{strategies}; default: one that fits the number of devices")
    add("--devices", default="", metavar="ID,ID", help="ids that `trainyard devices` lists, or gpu:0 for GPU 0")
    add(
        "--cuda-ids",
        default=CUDA_IDS[0],
        help=f"how GPUs are named in CUDA_VISIBLE_DEVICES: {_one_of(CUDA_IDS)}; default: uuid",
    )
    add_open_ports(parser)
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the recipe; can be repeated")
    add("--name", help="name of the run; default: the recipe's name")
    add(
        "--python", metavar="PATH",
        help="the Python that trains (`trainyard pythons` lists them); default: for a recipe, one that has the "
        "framework; for a script, the active environment, or one next to the script, or Trainyard's own",
    )  # fmt: skip
    add("--setup", metavar="NAME", help="a preset that `trainyard keep` saved; takes only --devices and --name")


def _add_script(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Arguments after -- are passed to the script."
    add = parser.add_argument_group("your own program, instead of a recipe").add_argument
    modes = _one_of(mode.name for mode in LAUNCH_MODES)
    add("--script", metavar="FILE", help="a Python program that trains; it is run unchanged")
    add("--module", metavar="NAME", help="a module to run, as with python -m NAME")
    add("--cwd", metavar="DIR", help="the folder to run it in; default: the current folder")
    add(
        "--env", action="append", default=[], metavar="NAME=VALUE",
        help="an environment variable; NAME alone takes the value from the environment at each start, and does not "
        "store it; can be repeated",
    )  # fmt: skip
    add(
        "--launch", metavar="HOW",
        help=f"{modes}: one process that sees all devices, or one process per device as with torchrun; "
        "default: chosen from the source",
    )  # fmt: skip
    add(
        "--expression", default="", metavar="REGEX",
        help="how to read metrics from the log: a regular expression with a named group for each, as (?P<loss>\\S+)",
    )  # fmt: skip


def _add_training(parser: argparse.ArgumentParser) -> None:
    add, usual = parser.add_argument_group("training").add_argument, Training()
    titles: dict[str, list[str]] = {}
    for row in FRAMEWORKS:
        titles.setdefault(row.compiler, []).append(row.title)
    compilers = ", ".join(f"{compiler} for {join_names(names)}" for compiler, names in titles.items())
    add("--epochs", type=int, metavar="N", help=f"number of epochs; default: {usual.epochs}")
    add("--batch-size", type=int, metavar="N", help=f"global batch size, over all devices; default: {usual.batch_size}")
    add("--learning-rate", type=float, metavar="X", help="default: the recipe's")
    add("--schedule", help=f"learning rate schedule: {_one_of(SCHEDULES)}; default: {usual.schedule}")
    add("--warmup-steps", type=int, metavar="N", help=f"learning rate warm-up steps; default: {usual.warmup_steps}")
    add(
        "--weight-decay",
        type=float,
        metavar="X",
        help="weight decay as in AdamW (decoupled); default: the optimizer's",
    )
    add("--gradient-clip", type=float, metavar="X", help="maximum norm of the whole gradient; default: no limit")
    add("--patience", type=int, metavar="N", help="stop early after N epochs without a better loss; default: never")
    add("--seed", type=int, metavar="N", help=f"random seed; default: {usual.seed}")
    add("--accumulation", type=int, metavar="N", help=f"gradient accumulation steps; default: {usual.accumulation}")
    add(
        "--micro-batches", type=int, metavar="N",
        help=f"for strategy pipeline: micro-batches per pass; default: {usual.micro_batches}",
    )  # fmt: skip
    add("--precision", help=f"number format of the computation: {_one_of(PRECISIONS)}; default: {usual.precision}")
    add(
        "--loader-workers", type=int, metavar="N",
        help=f"data-loader processes per rank, PyTorch only; default: {usual.loader_workers}",
    )  # fmt: skip
    add("--compile", action="store_true", default=None, help=f"compile the model: {compilers}")
    add("--stop-on-nan", action="store_true", default=None, help="fail if the loss is NaN or infinite")


def _add_checkpoints(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("checkpoints").add_argument
    add(
        "--checkpoint-every", metavar="TEXT",
        help="epoch, '5 epochs', '100 steps', '10 minutes', auto or never; default: auto, which costs little time",
    )  # fmt: skip
    add(
        "--keep-checkpoints", type=int, metavar="N",
        help=f"keep the latest N checkpoints and the best one; default: {Checkpoints().keep}",
    )  # fmt: skip


def _add_release(parser: argparse.ArgumentParser) -> None:
    add, usual = parser.add_argument_group("device memory after training").add_argument, ReleaseWatch()
    add(
        "--release-wait", type=float, metavar="SECONDS",
        help=f"maximum time to wait for the devices' memory after training; default: {usual.wait_s:g}",
    )  # fmt: skip
    add(
        "--release-tolerance", type=int, metavar="MB",
        help=f"maximum extra memory at which a device still counts as released; default: {usual.tolerance_mb}",
    )  # fmt: skip


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add the option of the commands that execute what a run or a preset names."""
    parser.add_argument("--yes", action="store_true", help="do not ask when the run or preset belongs to another user")


def add_open_ports(parser: argparse.ArgumentParser) -> None:
    """Add the option of the commands that start or resume a run with open ports."""
    opening = _one_of(row.name for row in STRATEGIES if row.needs_addresses)
    parser.add_argument(
        ALLOW, action="store_true", default=None,
        help=f"for {opening}: run it although other users can connect to its ports without a password",
    )  # fmt: skip


def add_detach(parser: argparse.ArgumentParser) -> None:
    """Add the option of the commands that start or resume a run."""
    parser.add_argument("--detach", action="store_true", help="return at once and leave the run in the background")


def _one_of(names: Iterable[str]) -> str:
    return join_names(names, "or")
