"""The command `check`: prove this machine."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from core.cli.output import add_force, check_file, confirm, is_interactive, say, say_json, warn
from core.cli.runs import survey
from core.config.choices import resolve
from core.language import tr
from core.launchers import p2p
from core.series.report import export_bytes
from core.text import capital

if TYPE_CHECKING:
    from core.check.check import Scope


def add_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    level = parser.add_mutually_exclusive_group()
    level.add_argument("--quick", action="store_true", help=tr("look only, in about ten seconds: no work on a GPU"))
    level.add_argument("--full", action="store_true", help=tr(
        "also train with every strategy, pause and resume, and kill processes of these trainings: about five minutes"))
    add("--devices", default="", metavar="ID,ID",
        help=tr("the devices to check; default: all GPUs, or two CPU devices where there is no GPU"))
    add("--save", metavar="FILE", help=tr("write the results to this file, as Markdown and without names and paths"))
    add("--share", action="store_true", help=tr("print the results as --save writes them, for an issue"))
    add("--yes", action="store_true", help=tr("compute on the devices also while something else uses them"))
    add("--p2p", choices=("on", "off"), help=tr(
        "check nothing: keep whether runs on this machine use direct access between GPUs (peer-to-peer)"))
    add_force(add)


def check(options: Namespace) -> int:
    """Check this machine: driver, GPUs and frameworks; compute on the GPUs and see that their memory comes back."""
    if options.p2p is not None:
        say(p2p.switch(on=options.p2p == "on"))
        return 0
    from core.check import table  # loads what no other command needs
    from core.check.check import Level, State, run, scope_of

    if options.save is not None:
        check_file(Path(options.save), force=options.force)
    level = Level.FULL if options.full else Level.QUICK if options.quick else Level.WORK
    found = survey()
    names = resolve([name for name in options.devices.split(",") if name], found.devices)
    with scope_of(found, names, computes=level > Level.QUICK, runs=options.runs) as scope:
        scope.shares = options.yes or (level > Level.QUICK and not scope.obstacle and _may_share(scope, options))
        results = []
        for result in run(table.chosen(level), scope):
            results.append(result)
            if not (options.json or options.share):
                say(f"{capital(tr(table.WORDS[result.state]))}: {tr(result.check.asks)}: {result.value}")
                if result.remedy:
                    warn(result.remedy)
    if options.json:
        say_json(table.document(results))
    elif options.share:
        say(table.page(scope, results), lines=True)
    else:
        say(table.closing_line(results))
    if options.save is not None:
        export_bytes(table.page(scope, results).encode(), Path(options.save))
    return int(any(result.state is State.PROBLEM for result in results))


def _may_share(scope: Scope, options: Namespace) -> bool:
    """Ask whether to compute on devices that something else uses; without a terminal that is a no."""
    if not (users := scope.look_for_users()):
        return False
    if not options.json and is_interactive() and confirm(tr("{users}. Compute on them all the same?", users=users)):
        return True
    warn(tr("{users}. Nothing computes on them; with --yes it does.", users=users))
    return False
