"""The command `queue`: list the queued runs, move, hold and release them, and take them up again after a reboot."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from core.cli.output import say, say_json, say_rows, warn
from core.errors import RunError
from core.history import index
from core.language import tr, tr_plural
from core.queue import control, failures
from core.queue.folder import own_line
from core.queue.listing import STATE_WORDS, queue_view
from core.queue.words import clock
from core.system.process_info import user_name
from core.text import join_names

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from pathlib import Path

    from core.queue.listing import OtherRun, QueuedRun

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
        say_json(_rows(queue_view(options.runs).runs))
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
    if options.json:
        say_json([*_rows(view.runs), *map(_other_row, others)])
        return 0
    now = time.time()
    rows: list[dict[str, object]] = [
        {
            "place": each.line_place or "-" if options.all else each.place, "run": each.run_dir.name,
            "user": user_name(os.getuid()), **_shown(each, now),
        }
        for each in view.runs
    ]  # fmt: skip
    rows += [{"place": each.line_place, "run": each.run, "user": each.user, **_shown(each, now)} for each in others]
    if options.all:
        rows.sort(key=lambda row: (row["place"] == "-", row["place"]))
    columns = ("place", *(("user",) if options.all else ()), "run", "state", "needs", "start", "reason")
    return say_rows(options, rows, columns)


def _shown(run: QueuedRun | OtherRun, now: float) -> dict[str, object]:
    return {
        "state": tr(STATE_WORDS[run.state]), "needs": run.needs, "reason": run.reason,
        "start": "-" if run.expected_start is None else clock(run.expected_start, now),
    }  # fmt: skip


def _rows(runs: tuple[QueuedRun, ...]) -> list[dict[str, object]]:
    return [
        {
            "run": each.run_dir.name, "place": each.place, "state": each.state, "needs": each.needs,
            "reason": each.reason, "expected_start": each.expected_start, "dir": str(each.run_dir),
            "priority": each.request.priority, "waits": each.waits, "line_place": each.line_place,
            "user": user_name(os.getuid()),
        }
        for each in runs
    ]  # fmt: skip


def _other_row(run: OtherRun) -> dict[str, object]:
    return {
        "run": run.run, "place": None, "state": run.state, "needs": run.needs, "reason": run.reason,
        "expected_start": run.expected_start, "dir": None, "priority": None, "waits": True,
        "line_place": run.line_place, "user": run.user,
    }  # fmt: skip


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
            failures.hold(line)
            text = tr("Your queue is held: none of your queued runs starts.")
        elif failures.let_go(line):
            text = tr("Your queue is no longer held.")
        else:
            text = tr("Your queue was not held.")
    except OSError as error:
        raise RunError(tr("{folder} could not be written: {why}.", folder=line.own, why=error.strerror)) from error
    if options.json:
        say_json(_rows(queue_view(options.runs).runs))
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
