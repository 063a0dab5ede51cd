"""The command line. Without a command it opens the window.

Exit codes: 0 finished, 1 failed, 2 wrong use (one sentence on stderr), 3 stopped or paused, 4 lost.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core import language
from core.cli.commands import (
    catalog,
    control,
    curves,
    desktop,
    devices,
    export,
    presets,
    pythons,
    remove,
    runs,
    start,
    sweep,
)
from core.cli.options import WRONG_USE, Parser, add_detach, add_open_ports, add_run_options, add_yes, common
from core.cli.output import say, warn
from core.errors import RunError
from core.language import tr, tr_noop
from core.runs import index

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Command = Callable[[argparse.Namespace], int]
    AddOptions = Callable[[argparse.ArgumentParser], None]

DESCRIPTION = tr_noop("Train on the devices you choose. Without a command, the window opens.")
RUN = tr_noop(
    "name of the run or of its folder, the beginning of the folder's name, or a path; `trainyard runs` lists them"
)
INTERRUPTED = 130
"""The exit code of a shell for a command ended by SIGINT: 128 + SIGINT."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--json" not in words:  # programs read one language
        language.use(language.from_environment(os.environ))
    try:
        options = _parse(words)
        command: Command = version if options.version else options.command
        return command(options)
    except (ValueError, RunError) as error:
        warn(str(error))
        return WRONG_USE
    except KeyboardInterrupt:
        warn(tr("Interrupted. Runs are not affected."))
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has gone, as in `trainyard runs | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        warn(
            tr(
                "{filename} cannot be used: {strerror}.",
                filename=error.filename or tr("The output"),
                strerror=error.strerror,
            )
        )
        return WRONG_USE


def _parse(words: list[str]) -> argparse.Namespace:
    end = words.index("--") if "--" in words else len(words)  # the words after it belong to the script
    # The namespace has the default of `--runs`: a default of the option would overwrite one before the command.
    given = argparse.Namespace(runs=index.default_root(), arguments=words[end + 1 :])
    options, unknown = _parser().parse_known_args(words[:end], given)
    if unknown:
        options.parser.refuse(unknown)
    return options


def version(options: argparse.Namespace) -> int:
    """Print the version: that of the installed distribution, or that of the source tree when none is installed."""
    from core.system.installation import version as installed

    del options
    say(f"trainyard {installed()}")
    return 0


def window(options: argparse.Namespace) -> int:
    """Open the window."""
    from gui.app import main as open_window

    return open_window(options.runs)


@dataclass(frozen=True, slots=True)
class _Row:
    """One command."""

    name: str
    function: Command
    adders: tuple[AddOptions, ...] = ()
    """Functions that add its options."""
    of_run: bool = False
    """Whether its first argument is a run."""


COMMANDS = (
    _Row("devices", devices.devices),
    _Row("catalog", catalog.show_catalog),
    _Row("recipes", catalog.show_recipes),
    _Row("pythons", pythons.pythons, (pythons.add_options,)),
    _Row("run", start.run, (add_run_options, add_yes)),
    _Row("runs", runs.list_runs),
    _Row("show", runs.show, (runs.add_events,), of_run=True),
    _Row("rename", runs.rename_run, (runs.add_name,), of_run=True),
    _Row("attach", start.attach, of_run=True),
    _Row("stop", control.stop, (control.add_force,), of_run=True),
    _Row("pause", control.pause, of_run=True),
    _Row("resume", start.resume, (add_detach, add_yes, add_open_ports), of_run=True),
    _Row("again", start.again, (add_detach, add_yes, add_open_ports), of_run=True),
    _Row("save", control.save, of_run=True),
    _Row("try", curves.try_expression, (curves.add_expression,), of_run=True),
    _Row("reread", curves.reread, of_run=True),
    _Row("command", presets.command, of_run=True),
    _Row("keep", presets.keep, (presets.add_options, add_yes), of_run=True),
    _Row("setups", presets.list_presets),
    _Row("export", export.export, (export.add_options, add_yes), of_run=True),
    _Row("sweep", sweep.sweep, (sweep.add_options,)),
    _Row("remove", remove.remove, (remove.add_options,)),
    _Row("desktop", desktop.desktop, (desktop.add_options,)),
)


def _parser() -> Parser:
    shared = common()
    with_json = Parser(add_help=False, parents=[shared])
    with_json.add_argument("--json", action="store_true", help=tr("print one JSON document and nothing else"))
    parser = Parser(prog="trainyard", description=tr(DESCRIPTION), parents=[shared])
    parser.add_argument("--version", action="store_true", help=tr("print the version of Trainyard"))
    parser.set_defaults(command=window, parser=parser)
    commands = parser.add_subparsers(metavar="COMMAND")
    for row in COMMANDS:
        summary = tr((row.function.__doc__ or "").strip())
        added = commands.add_parser(row.name, help=summary, description=summary, parents=[with_json])
        added.set_defaults(command=row.function, parser=added)
        if row.of_run:
            added.add_argument("run", metavar="RUN", help=tr(RUN))
        for add_options in row.adders:
            add_options(added)
    return parser


if __name__ == "__main__":
    sys.exit(main())
