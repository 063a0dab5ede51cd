"""The command line: the same core without a window.

Exit codes: 0 finished, 1 failed, 2 wrong use (one sentence on stderr), 3 stopped or paused, 4 lost.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from core.cli.commands import exporting, facts, keeping, pythons, removing, running, sweeping
from core.cli.options import (
    WRONG_USE,
    Parser,
    add_detach,
    add_export_options,
    add_expression,
    add_force,
    add_run_options,
    common,
)
from core.cli.output import warn
from core.errors import RunError
from core.runs import index

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Command = Callable[[argparse.Namespace], int]

RUN = "its name, the beginning of it, or its folder; `trainyard runs` lists them"
INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = _parsed(words)
        command: Command = options.command
        return command(options)
    except (ValueError, RunError) as error:
        warn(str(error))
        return WRONG_USE
    except KeyboardInterrupt:
        warn("interrupted. Runs are not affected.")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`trainyard runs | head`): nothing more to say, to nobody.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        warn(f"{error.filename or 'the output'} cannot be used: {error.strerror}.")
        return WRONG_USE


def _parsed(words: list[str]) -> argparse.Namespace:
    # Given, not set as a default: that would be the default of `--runs` behind each command, too, and take its place.
    cut = words.index("--") if "--" in words else len(words)  # what follows is not for us, whatever it looks like
    given = argparse.Namespace(runs=index.default_root(), arguments=words[cut + 1 :])
    return _parser().parse_args(words[:cut], given)


def window(options: argparse.Namespace) -> int:
    """Open the panel."""
    from gui.app import main as open_window

    return open_window(options.runs)


def _parser() -> Parser:
    shared = common()
    facts_options = Parser(add_help=False, parents=[shared])
    facts_options.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    parser = Parser(prog="trainyard", description="Train on the devices you tick. Without a command: the window.",
                    parents=[shared])  # fmt: skip
    parser.set_defaults(command=window)
    commands = parser.add_subparsers(metavar="COMMAND")

    def add(name: str, command: Command, *, of_run: bool = False) -> argparse.ArgumentParser:
        summary = (command.__doc__ or "").strip()
        made = commands.add_parser(name, help=summary, description=summary, parents=[facts_options])
        made.set_defaults(command=command)
        if of_run:
            made.add_argument("run", metavar="RUN", help=RUN)
        return made

    add("devices", facts.devices)
    add("catalog", facts.show_catalog)
    add("recipes", facts.show_recipes)
    pythons.add_options(add("pythons", pythons.pythons))
    add_run_options(add("run", running.run))
    add("runs", facts.list_runs)
    add("show", facts.show, of_run=True)
    add("attach", running.attach, of_run=True)
    add_force(add("stop", running.stop, of_run=True))
    add("pause", running.pause, of_run=True)
    add_detach(add("resume", running.resume, of_run=True))
    add_detach(add("again", running.again, of_run=True))
    add("save", running.save, of_run=True)
    add_expression(add("try", keeping.try_expression, of_run=True))
    add("command", keeping.command, of_run=True)
    add("keep", keeping.keep, of_run=True).add_argument(
        "name", metavar="NAME", help="of the setup; or the path of a file"
    )
    add("setups", keeping.list_setups)
    add_export_options(add("export", exporting.export, of_run=True))
    add("sweep", sweeping.sweep).add_argument("--end", action="store_true", help="end them without being asked")
    removing.add_options(add("remove", removing.remove))
    return parser


if __name__ == "__main__":
    sys.exit(main())
