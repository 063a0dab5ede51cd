"""The commands `check` and `fit`: prove this machine, and measure what a training needs of its memory."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from core.cli import run_options
from core.cli.commands.start import refusal, warn_of_doubt, warn_of_sharing
from core.cli.options import add_recipe_options
from core.cli.output import (
    add_force,
    answer,
    check_file,
    confirm,
    is_interactive,
    say,
    say_json,
    say_table,
    warn,
)
from core.cli.runs import all_runs, survey
from core.config.choices import compose, resolve
from core.config.fit import fit_of
from core.devices.device import Device, Survey, devices_here
from core.errors import RunError
from core.language import tr
from core.launchers import p2p
from core.schema.spec import RunSpec
from core.series.report import export_bytes
from core.table import Column, Table
from core.text import capital, size

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


def add_fit_options(parser: ArgumentParser) -> None:
    add_recipe_options(parser)
    parser.set_defaults(name=None)
    add = parser.add_argument_group(tr("measurements")).add_argument
    add("--largest", action="store_true", help=tr("also measure the largest batch that fits"))
    add("--other", action="store_true",
        help=tr("also measure strategy fsdp, bfloat16 and accumulation, as far as the training can have them"))


def fit(options: Namespace) -> int:
    """Measure in short runs whether a recipe fits into the memory of its devices, and up to which batch."""
    from core.fit.answer import measured_answer  # loads what few other commands need

    if options.recipe is None:
        raise ValueError(tr("No recipe is given. Name a recipe (`trainyard recipes` lists them)."))
    names = run_options.device_names(options)
    if len(devices_here(names)) < len(names):
        raise ValueError(tr("Memory is measured on devices of this machine only. Leave the other machines out."))
    found = survey()
    spec = compose(run_options.recipe_choices(options), found.devices)
    if problem := refusal(spec, found):
        raise ValueError(problem)
    _warn_before(options, spec, found)
    try:
        tell = str if options.json else warn
        result = measured_answer(spec, found, options.runs, tell, largest=options.largest, others=options.other)
    except RunError as error:
        warn(str(error))
        return 1
    if not options.json:
        columns: tuple[Column[Device], ...] = (
            Column("device", lambda each: each.label), _column("peak", result.asked.peaks),
            _column("left", result.asked.left),
        )
        say_table(Table(columns, result.devices).cells())
    answer(options, result.document, *result.sentences)
    return int(not result.fits)


def _column(name: str, sizes: Mapping[str, int]) -> Column[Device]:
    return Column(name, text=lambda each: size(sizes[each.id]) if each.id in sizes else None)


def _warn_before(options: Namespace, spec: RunSpec, found: Survey) -> None:
    """Print what should be known before the measurement."""
    from core.fit.probe import writing_words

    chosen = [each for each in found.devices if each.id in spec.devices]
    for finding in fit_of(spec, chosen, found, all_runs(options.runs)):
        warn(str(finding))
    warn_of_sharing(options, spec, found)
    warn_of_doubt(spec, found.devices)
    if words := writing_words(Path(spec.own_recipe.path)):
        warn(words)
    if spec.training.loader_workers:
        warn(tr("The memory of data-loader processes is not measured."))
