"""The command `scale`: the same training on 1, 2, 4, ... devices, and what each further device gains."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from core.catalog import recipes
from core.cli import run_options
from core.cli.commands.start import interrupts_blocked, refusal, warn_of_doubt, warn_of_sharing
from core.cli.options import add_recipe_options
from core.cli.output import (
    FILES,
    add_force,
    add_plot_options,
    add_table_options,
    answer,
    check_files,
    confirm_removal,
    ending,
    given_files,
    say_json,
    say_table,
    warn,
    warn_of_failure,
    write_page,
    write_plots,
    write_tables,
)
from core.cli.runs import follow, survey
from core.devices.device import Survey
from core.errors import RunError
from core.language import tr, tr_plural
from core.results import scaling_record as records
from core.results.scaling_record import BATCHES, FIXED, ScalingRecord, plan_specs
from core.runs.facts import RunState, state_info
from core.runs.run import Run
from core.schema.setting import Whole, check_value
from core.schema.spec import RunSpec
from core.system import processes

if TYPE_CHECKING:
    from core.results.scaling_table import ScalingTable

OWN = frozenset({"runs", "json", "resume", "show", "delete", "with_runs", "yes", *FILES, "force",
                 "version", "command", "parser", "arguments"})
"""Options that say nothing about the trainings, and go with --resume and --show."""
HALTED = frozenset({RunState.STOPPED, RunState.PAUSED})
"""States of a run in which its user did not want it to go on."""
NO_RESULT = {RunState.FAILED.value, RunState.LOST.value}
FAILED, INTERRUPTED = 1, 3
"""Exit codes, as those of `run`."""


def add_options(parser: ArgumentParser) -> None:
    add_recipe_options(parser)
    add = parser.add_argument_group(tr("scaling table")).add_argument
    add(
        "--batch", choices=BATCHES, default=FIXED,
        help=tr("fixed: the global batch is --batch-size on any number of devices; per-device: the batch of each "
                "device is --batch-size; default: fixed"),
    )
    add("--repeats", type=int, default=1, metavar="N", help=tr("train N times on each number of devices; default: 1"))
    add("--name", help=tr("name of the scaling table, with which the names of its runs begin; default: the recipe's"))
    add("--resume", metavar="NAME", help=tr("continue a scaling table with the trainings that have no result yet"))
    add("--show", metavar="NAME", help=tr("show a scaling table, and train nothing"))
    add("--delete", metavar="NAME", help=tr("delete a scaling table; its runs stay"))
    add("--with-runs", action="store_true", help=tr("with --delete: delete the runs of the table, too"))
    add("--yes", action="store_true", help=tr("with --delete: do not ask"))
    add_table_options(add)
    add("--html", metavar="FILE", help=tr("write the table and a report on its runs to this file (.html)"))
    add_plot_options(add)
    add_force(add)


def scale(options: Namespace) -> int:
    """Train a recipe on 1, 2, 4, ... of the devices, one training after the other, and show what each device gains."""
    from core.results import report  # loads numpy
    from core.results import scaling_table as tables

    check_files(options)
    if options.delete is not None:
        return _delete(options)
    if options.with_runs or options.yes:
        raise ValueError(tr("--with-runs and --yes go with --delete NAME. Leave them out."))
    if options.resume is not None or options.show is not None:
        _check_kept(options)
        record = records.read_record(options.runs, options.show if options.resume is None else options.resume)
        halted = None if options.resume is None else _measure(options, record, survey())
    else:
        found = survey()
        record = _new(options, found)
        halted = _measure(options, record, found)
    record = records.read_record(options.runs, record.name)  # with the runs that were made
    table = tables.read_table(record)
    write_tables(options, lambda: tables.text_table(table))
    write_page(options, lambda: report.scaling_report(table, made=time.time()))
    write_plots(options, lambda: report.scaling_charts(table))
    if options.json:
        say_json(tables.to_json(table))
    else:
        if not given_files(options):
            say_table(tables.text_table(table).cells())
        for notice in table.notices:
            warn(notice)
    return _exit_code(options, table, halted)


def _exit_code(options: Namespace, table: ScalingTable, halted: str | None) -> int:
    unfinished = [state for state in table.states if state != RunState.FINISHED.value]
    if halted is not None and not options.json:
        warn(halted)
    if unfinished and not options.json:
        warn(tr_plural(
            "{count} training has no result yet: trainyard scale --resume {name}",
            "{count} trainings have no result yet: trainyard scale --resume {name}",
            len(unfinished), name=shlex.quote(table.record.name),
        ))
    if options.show is not None or not unfinished:
        return 0
    return FAILED if halted is None and NO_RESULT.intersection(unfinished) else INTERRUPTED


def _delete(options: Namespace) -> int:
    """Delete a scaling table, after a question."""
    from core.results import scaling_command

    _check_kept(options)
    if given := given_files(options):
        raise ValueError(tr("--{name} and --delete cannot be combined. Write the table first.", name=given[0]))
    record = records.read_record(options.runs, options.delete)
    if problem := scaling_command.why_not(record):
        raise ValueError(problem)
    runs = scaling_command.own_runs(record)
    question = (
        tr_plural("Delete the scaling table {name} and its {count} run? This cannot be undone.",
                  "Delete the scaling table {name} and its {count} runs? This cannot be undone.",
                  len(runs), name=record.name)
        if options.with_runs
        else tr("Delete the scaling table {name}? Its runs stay. This cannot be undone.", name=record.name)
    )
    if not confirm_removal(options, question):
        return 0
    removed = scaling_command.delete(record.root, record.name, with_runs=options.with_runs)
    if removed.problem:
        warn(removed.problem)
        return FAILED
    names = [each.name for each in runs] if options.with_runs else []
    document = {"deleted": record.name, "runs": names, "freed_bytes": removed.freed_bytes}
    return answer(options, document, tr("Deleted the scaling table {name}.", name=record.name))


def _check_kept(options: Namespace) -> None:
    """Refuse settings beside --resume, --show and --delete: those of the scaling table are kept."""
    kept = [name for name in ("resume", "show", "delete") if getattr(options, name) is not None]
    if len(kept) > 1:
        raise ValueError(tr("Both --{first} and --{second} are given. Give one of them.",
                            first=kept[0], second=kept[1]))
    for name, value in vars(options).items():
        if name not in OWN and value != options.parser.get_default(name):
            given = tr("A recipe") if name == "recipe" else f"--{name.replace('_', '-')}"
            raise ValueError(tr(
                "{given} cannot be combined with {option}: the scaling table keeps its settings. Leave it out.",
                given=given, option=f"--{kept[0]}",
            ))


def _new(options: Namespace, found: Survey) -> ScalingRecord:
    """Return the record of a new scaling table, which is not written yet. Raises `ValueError` with a sentence."""
    check_value("--repeats", Whole(1), options.repeats)
    if options.repeats > records.MAX_REPEATS:
        raise ValueError(tr("--repeats is {count}. Give at most {limit}.",
                            count=options.repeats, limit=records.MAX_REPEATS))
    if options.recipe is None:
        raise ValueError(
            tr("No recipe is given. Name one (`trainyard recipes` lists them), or continue a table with --resume NAME.")
        )
    choices = run_options.recipe_choices(options)
    default = recipes.find(choices.recipe, choices.framework).name
    name = records.free_name(options.runs, options.name, default)
    specs = plan_specs(choices, found.devices, name=name, batch=options.batch)
    return records.new_record(options.runs, specs, name=name, batch=options.batch, repeats=options.repeats)


def _measure(options: Namespace, record: ScalingRecord, found: Survey) -> str | None:
    """Make the runs that are missing; return why not all of them were made, in a sentence.

    Raises `ValueError` with a sentence before anything is started. The record of a table that is continued keeps the
    sentence, for windows.
    """
    # The shell by which a window starts this in the background lets it ignore SIGINT, so that no Ctrl-C on a terminal
    # reaches it. That shell, which led its session, has ended: there is no terminal, and SIGINT is to stop this.
    if processes.identify(os.getsid(0)) is None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if options.resume is None:
        return _make_runs(options, record, found)
    record = record.taken()
    try:
        return _make_runs(options, record, found)
    except (RunError, ValueError) as error:
        records.read_record(record.root, record.name).left(str(error))
        raise


def _make_runs(options: Namespace, record: ScalingRecord, found: Survey) -> str | None:
    counting = [(spec, repeat, _live_or_finished(record, spec, repeat)) for spec, repeat in record.cells]
    left = [
        (number, spec, repeat, run)
        for number, (spec, repeat, run) in enumerate(counting, 1)
        if run is None or run.facts.state is not RunState.FINISHED
    ]
    specs = {len(spec.devices): spec for _, spec, _, _ in left}
    for devices in sorted(specs, reverse=True):  # what the largest lacks, the others may lack, too
        if problem := refusal(specs[devices], found):
            raise ValueError(problem)
    if not left:
        if record.measured_by is not None:
            record.left()
        return None
    warn_of_doubt(record.specs[-1], found.devices)
    record, halted = record if record.is_measured else record.taken(), None
    try:
        for number, spec, repeat, live in left:
            _say_beginning(options, record, spec, number)
            run = live
            if run is None:
                warn_of_sharing(options, spec, found if number == left[0][0] else survey())
                run, record = _start(record, spec, repeat)
            follow(run, None if options.json else sys.stderr)  # until the memory is back; Ctrl-C stops the run
            if run.facts.state in HALTED:
                halted = tr("{run}. Nothing more was started.", run=ending(run))
                break
            if run.facts.state is not RunState.FINISHED and not options.json:
                warn_of_failure(run)
    except KeyboardInterrupt:  # between two runs
        halted = tr("Interrupted. Nothing more was started.")
    finally:
        with interrupts_blocked():
            record.left(halted or "")
    return halted


def _live_or_finished(record: ScalingRecord, spec: RunSpec, repeat: int) -> Run | None:
    """Return the run that counts for a training if it is finished or goes on; None if the training is to be made.

    A run goes on when the command that started it was killed.
    """
    run_dir = record.run_of(len(spec.devices), repeat)
    if run_dir is None:
        return None
    run = Run.attach(run_dir)
    run.catch_up()
    if run.facts.state is RunState.FINISHED:
        return run
    return None if state_info(run.facts.state).over else Run.attach(run_dir)


def _start(record: ScalingRecord, spec: RunSpec, repeat: int) -> tuple[Run, ScalingRecord]:
    """Start a run and note it in the record."""
    run = None
    try:
        with interrupts_blocked():  # Ctrl-C must not hide a run that was started
            run = Run.start(spec, record.root)
            record = record.with_run(len(spec.devices), repeat, run.dir)
    except KeyboardInterrupt:
        assert run is not None  # the interrupt comes at the end of the block
        run.request("stop")
    except RunError:
        if run is not None:  # the record, which was not written, is how the run would be found
            run.request("stop")
        raise
    return run, record


def _say_beginning(options: Namespace, record: ScalingRecord, spec: RunSpec, number: int) -> None:
    if not options.json:
        warn(tr_plural(
            "Training {number} of {all}: {count} device ({ids}), strategy {strategy}, batch {batch}",
            "Training {number} of {all}: {count} devices ({ids}), strategy {strategy}, batch {batch}",
            len(spec.devices), number=number, all=len(record.cells), ids=", ".join(spec.devices),
            strategy=spec.strategy, batch=spec.training.batch_size,
        ))
