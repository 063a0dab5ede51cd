"""The command `queue`: list the queued runs, move, hold and release them, and take them up again after a reboot."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from core.cli.output import say, say_json, say_rows, warn
from core.errors import RunError
from core.history import index
from core.language import tr, tr_plural
from core.queue import control, folder
from core.queue.folder import own_line
from core.queue.listing import STATE_WORDS, OtherRun, QueuedRun, clock, queue_view
from core.system.process_info import user_name
from core.table import Column, Table
from core.text import join_names, short

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable
    from pathlib import Path

ACTIONS = ("move", "hold", "release", "start", "revive")


def add_options(parser: ArgumentParser) -> None:
    """Add the arguments of `queue`."""
    add = parser.add_argument
    add(
        "action", nargs="?", metavar="ACTION", choices=ACTIONS,
        help=tr("move RUN PLACE, hold [RUN], release [RUN], start RUN, or revive; without one, the queue is listed"),
    )  # fmt: skip
    add(
        "run", nargs="?", metavar="RUN", help=tr("a queued run; without one, hold and release are for your whole queue")
    )
    add("--all", action="store_true", help=tr("list also the queued runs of other users"))
    add("place", nargs="?", type=int, metavar="PLACE", help=tr("for move: the new place among your runs, from 1"))
    add("--recorded", action="store_true", help=tr("for release: train the recipe or script as it was queued"))
    add("--current", action="store_true", help=tr("for release: train the recipe or script as it is now"))


def queue(options: Namespace) -> int:
    """List the queued runs with their places and reasons, or change the queue."""
    _check(options)
    if options.action is None:
        return _list(options)
    if options.action == "revive":
        return _revive(options)
    if options.run is None:
        return _whole_queue(options)
    run_dir = index.find(options.runs, options.run)
    _change(options, run_dir)
    if options.json:
        say_json(Table(_columns(), queue_view(options.runs).runs).documents())
    return 0


def _check(options: Namespace) -> None:
    if options.action == "move" and options.place is None:
        raise ValueError(tr("The place is missing. Give it: trainyard queue move RUN PLACE"))
    if options.action != "move" and options.place is not None:
        raise ValueError(tr("Only `queue move` takes a place. Leave {place} out.", place=options.place))
    if options.action == "revive" and options.run is not None:
        raise ValueError(tr("`queue revive` takes up all runs of the folder. Leave {run} out.", run=options.run))
    if options.all and options.action is not None:
        raise ValueError(tr("--all is for the list of queued runs. Leave it out."))
    if (options.recorded or options.current) and (options.action != "release" or options.run is None):
        raise ValueError(tr("--recorded and --current are for `queue release RUN`. Leave them out."))
    if options.recorded and options.current:
        raise ValueError(tr("Both --recorded and --current are given. A run trains one of them: leave one out."))


def _list(options: Namespace) -> int:
    view = queue_view(options.runs)
    for sentence in (*view.troubles, *([view.held] if view.held else [])):
        warn(sentence)
    others = view.others if options.all else ()
    if not view.runs and not others and not options.json:
        warn(tr("No run is queued in {runs}.", runs=options.runs))
    runs: list[Queued] = [*view.runs, *others]
    if options.all and not options.json:
        runs.sort(key=lambda each: (each.line_place is None, each.line_place or 0))
    return say_rows(options, _columns(is_everyones=options.all), runs)


Queued = QueuedRun | OtherRun


def _of(
    own: Callable[[QueuedRun], object], other: Callable[[OtherRun], object] = lambda _: None
) -> Callable[[Queued], object]:
    return lambda run: own(run) if isinstance(run, QueuedRun) else other(run)


def _columns(*, is_everyones: bool = False) -> tuple[Column[Queued], ...]:
    """Return what is listed of each run. `is_everyones`: with the queued runs of other users."""
    me, now = user_name(os.getuid()), time.time()
    place = "line_place" if is_everyones else "place"
    return (
        Column("place", _of(lambda run: run.place), text=lambda run: short(getattr(run, place))),
        Column("user", _of(lambda _: me, lambda run: run.user), "" if is_everyones else None),
        Column("run", _of(lambda run: run.run_dir.name, lambda run: run.run)),
        Column("state", lambda run: run.state, text=lambda run: tr(STATE_WORDS[run.state])),
        Column("needs", lambda run: run.needs),
        Column("expected_start", lambda run: run.expected_start, "start",
               lambda run: None if run.expected_start is None else clock(run.expected_start, now)),
        Column("reason", lambda run: run.reason),
        Column("dir", _of(lambda run: str(run.run_dir)), None),
        Column("priority", _of(lambda run: run.request.priority), None),
        Column("waits", _of(lambda run: run.waits, lambda _: True), None),
        Column("line_place", lambda run: run.line_place, None),
    )  # fmt: skip


def _change(options: Namespace, run_dir: Path) -> None:
    if options.action == "hold":
        control.hold(run_dir)
        text = tr("Run {run} is held.", run=run_dir.name)
    elif options.action == "start":
        control.start_now(run_dir)
        text = tr("Run {run} starts now, also beside other runs on its devices.", run=run_dir.name)
    elif options.action == "release":
        chosen = "recorded" if options.recorded else "current" if options.current else None
        control.let_go(run_dir, chosen)
        text = tr("Run {run} is no longer held.", run=run_dir.name)
    else:
        priority = control.move(run_dir, options.place, list(queue_view(options.runs).runs))
        text = tr(
            "Run {run} is at place {place} now, with priority {priority}.",
            run=run_dir.name,
            place=options.place,
            priority=priority,
        )
    if not options.json:
        say(text)


def _whole_queue(options: Namespace) -> int:
    if options.action == "move":
        raise ValueError(tr("The run is missing. Give it: trainyard queue move RUN PLACE"))
    if options.action == "start":
        raise ValueError(tr("The run is missing. Give it: trainyard queue start RUN"))
    line = own_line().line
    try:
        if options.action == "hold":
            folder.hold(line)
            text = tr("Your queue is held: none of your queued runs starts.")
        elif folder.let_go(line):
            text = tr("Your queue is no longer held.")
        else:
            text = tr("Your queue was not held.")
    except OSError as error:
        raise RunError(tr("{folder} could not be written: {why}.", folder=line.own, why=error.strerror)) from error
    if options.json:
        say_json(Table(_columns(), queue_view(options.runs).runs).documents())
    else:
        say(text)
    return 0


def _revive(options: Namespace) -> int:
    found = control.revive(options.runs)
    names = [run_dir.name for run_dir in found]
    if options.json:
        say_json(names)
    elif names:
        say(tr_plural("{runs} waits again.", "{runs} wait again.", len(names), runs=join_names(names)))
    else:
        say(tr("No run had to be taken up again."))
    return 0
