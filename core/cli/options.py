"""The options of the command line. What they mean as choices is in `core.cli.parse_choices`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from core.catalog import frameworks, strategies
from core.catalog.strategies import LAUNCH_MODES
from core.runs import index
from core.schema.settings import CUDA_IDS, PRECISIONS, SCHEDULES, Checkpoints, ReleaseWatch, Training
from core.text import join_names

WRONG_USE = 2
TRAINING = (
    "epochs", "batch_size", "learning_rate", "seed", "accumulation", "precision", "loader_workers", "schedule",
    "warmup_steps", "weight_decay", "gradient_clip", "patience", "stop_on_nan", "compile", "micro_batches",
)  # fmt: skip
"""The options that are fields of `Training`; None for those that were not given."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence instead of a page of usage."""

    def error(self, message: str) -> NoReturn:
        """Leave with the sentence."""
        if message.startswith("unrecognized arguments"):
            message += ". What is meant for a script of your own goes behind --"
        self.exit(WRONG_USE, f"trainyard: {message}. See {self.prog} --help.\n")


def common() -> Parser:
    """What all commands take. Suppressed here, so that it may stand before or after the command: see `core.cli`."""
    parser = Parser(add_help=False)
    parser.add_argument(
        "--runs",
        type=Path,
        default=argparse.SUPPRESS,
        metavar="DIR",
        help=f"where runs are kept ({index.default_root()})",
    )
    return parser


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """What `run` takes."""
    _add_choices(parser)
    _add_python(parser)
    _add_script(parser)
    _add_training(parser)
    _add_checkpoints(parser)
    _add_release(parser)
    add_detach(parser)


def _add_choices(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("recipe", metavar="RECIPE", nargs="?", help="a built-in name or a Python file")
    add("--framework", help=f"{join_names((row.id for row in frameworks.FRAMEWORKS), 'or')}; default: pytorch")
    add("--strategy", help=f"default: what fits the number of devices. {_strategies()}")
    add("--devices", default="", metavar="ID,ID", help="as `trainyard devices` lists them; gpu:0 for GPU 0")
    add(
        "--cuda-ids",
        default=CUDA_IDS[0],
        help=f"{join_names(CUDA_IDS, 'or')}: how the GPUs are named to libraries; default: uuid",
    )
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the recipe; may be repeated")
    add("--name", help="what to call the run; default: the recipe's name")


def _add_python(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--python", metavar="PATH",
        help="which Python trains, as `trainyard pythons` lists them; default: for a recipe the one that has its "
        "framework; for a script the active environment's, or that beside it, or the panel's own",
    )  # fmt: skip


def _add_script(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--setup",
        metavar="NAME",
        help="in place of all this: what `keep` has kept; --devices and --name still count",
    )
    parser.epilog = "What follows -- is passed to the script as it is."
    add = parser.add_argument_group("a program of your own, in place of a recipe").add_argument
    add("--script", metavar="FILE", help="a Python program that trains by itself; it is run unchanged")
    add("--module", metavar="NAME", help="the same as python -m NAME")
    add("--cwd", metavar="DIR", help="the folder to run it in; default: this one")
    add("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable for it; may be repeated")
    add(
        "--launch", metavar="HOW",
        help=f"{join_names((mode.name for mode in LAUNCH_MODES), 'or')}: one process that sees all devices, or one "
        "process per device as with torchrun; default: chosen from its source",
    )  # fmt: skip
    add(
        "--expression", default="", metavar="REGEX",
        help="how to read its log: a regular expression with a named group for each metric, such as (?P<loss>\\S+)",
    )  # fmt: skip


def _add_training(parser: argparse.ArgumentParser) -> None:
    add, usual = parser.add_argument, Training()
    add("--epochs", type=int, metavar="N", help=f"default: {usual.epochs}")
    add("--batch-size", type=int, metavar="N", help=f"the global batch, over all devices; default: {usual.batch_size}")
    add("--learning-rate", type=float, metavar="X", help="default: the recipe's")
    add("--schedule", help=f"of the learning rate: {join_names(SCHEDULES, 'or')}; default: {usual.schedule}")
    add(
        "--warmup-steps", type=int, metavar="N",
        help=f"steps in which the learning rate rises to its full height; default: {usual.warmup_steps}",
    )  # fmt: skip
    add("--weight-decay", type=float, metavar="X", help="decoupled, as in AdamW; default: the recipe's optimizer's own")
    add("--gradient-clip", type=float, metavar="X", help="the largest norm of the whole gradient; default: no limit")
    add("--patience", type=int, metavar="N", help="end after so many epochs without a better loss; default: never")
    add("--seed", type=int, metavar="N", help=f"default: {usual.seed}")
    add("--accumulation", type=int, metavar="N", help=f"gradient accumulation steps; default: {usual.accumulation}")
    add(
        "--micro-batches", type=int, metavar="N",
        help=f"pipeline only: micro-batches per pass; default: {usual.micro_batches}",
    )  # fmt: skip
    add("--precision", help=f"{join_names(PRECISIONS, 'or')}; default: {usual.precision}")
    add(
        "--loader-workers", type=int, metavar="N",
        help=f"data-loader processes per rank, PyTorch only; default: {usual.loader_workers}",
    )  # fmt: skip
    add("--compile", action="store_true", default=None, help=_compilers())
    add("--stop-on-nan", action="store_true", default=None, help="fail at a loss that is no number")


def _add_checkpoints(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint-every", metavar="TEXT",
        help="epoch, '5 epochs', '100 steps', '10 minutes', auto (the default: as often as costs little) or never",
    )  # fmt: skip
    parser.add_argument(
        "--keep-checkpoints", type=int, metavar="N",
        help=f"so many of the latest; the best stays, too; default: {Checkpoints().keep}",
    )  # fmt: skip


def _add_release(parser: argparse.ArgumentParser) -> None:
    usual = ReleaseWatch()
    parser.add_argument(
        "--release-wait", type=float, metavar="SECONDS",
        help=f"how long the devices' memory is waited for after training at most; default: {usual.wait_s:g}",
    )  # fmt: skip
    parser.add_argument(
        "--release-tolerance", type=int, metavar="MB",
        help=f"a device is released when it uses no more than so much more than before; default: {usual.tolerance_mb}",
    )  # fmt: skip


def add_detach(parser: argparse.ArgumentParser) -> None:
    """Of the commands that start something."""
    parser.add_argument("--detach", action="store_true", help="return at once; the run goes on")


def add_force(parser: argparse.ArgumentParser) -> None:
    """Of `stop`."""
    parser.add_argument(
        "--force", action="store_true",
        help="kill the workers at once; where training is over: do not wait for the memory",
    )  # fmt: skip


def add_expression(parser: argparse.ArgumentParser) -> None:
    """Of `try`."""
    parser.add_argument("expression", metavar="REGEX", help="as for `run --expression`: a named group for each metric")


def add_export_options(parser: argparse.ArgumentParser) -> None:
    """What `export` takes."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--csv", metavar="FILE", help="the measurements, every step; - for stdout")
    what.add_argument("--model", metavar="FOLDER", help="the model of a checkpoint, for use elsewhere: a new folder")
    parser.add_argument(
        "--format", choices=("state_dict", "keras", "saved_model"),
        help="of the model: state_dict for PyTorch; keras (the default) or saved_model for Keras and TensorFlow",
    )  # fmt: skip
    parser.add_argument("--checkpoint", metavar="NAME", help="as `show` lists them, or best; default: the latest")


def _strategies() -> str:
    return "; ".join(
        f"{row.title}: {join_names((each.name for each in strategies.strategies_of(row.id)), 'or')}"
        for row in frameworks.FRAMEWORKS
    )


def _compilers() -> str:
    titles: dict[str, list[str]] = {}
    for row in frameworks.FRAMEWORKS:
        titles.setdefault(row.compiler, []).append(row.title)
    return ", ".join(f"{compiler} for {join_names(those)}" for compiler, those in titles.items())
