"""The commands `remove` and `sweep`: delete the folders of runs that are over; terminate processes that are left."""

from __future__ import annotations

import math
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core.cli.output import (
    confirm,
    confirm_removal,
    is_interactive,
    say,
    say_json,
    say_rows,
    say_table,
    state_words,
    warn,
)
from core.cli.runs import all_runs
from core.errors import RunError
from core.history import index, removal
from core.history.removal import OrphanedProcess, Removed
from core.language import join_sentences, tr, tr_plural
from core.runs.facts import state_info
from core.schema.event_kinds import shortened
from core.system.procfs import PROC
from core.system.terminate import TerminationResult, terminate
from core.table import Column
from core.text import DAY_S, disk, replace_control_characters, size


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("chosen", metavar="RUN", nargs="*", help=tr("runs, named as for `trainyard show`"))
    parser.add_argument(
        "--older-than", type=float, metavar="DAYS", help=tr("all runs that ended more than DAYS days ago")
    )
    parser.add_argument("--yes", action="store_true", help=tr("remove them without asking"))


def remove(options: Namespace) -> int:
    """Delete runs that are over: their folders with checkpoints and logs."""
    chosen = _older_runs(options) if options.older_than is not None else _named_runs(options)
    if not options.json:
        _show(options, chosen)
    question = tr_plural(
        "Remove this run? This cannot be undone.", "Remove these {count} runs? This cannot be undone.", len(chosen)
    )
    if chosen and not confirm_removal(options, question):
        return 0
    removed = {run_dir: removal.remove(run_dir) for run_dir in chosen}
    if options.json:
        say_json(_document(removed))
    else:
        _show_result(removed)
    return 1 if any(each.problem for each in removed.values()) else 0


def _named_runs(options: Namespace) -> list[Path]:
    """Return the folders of the named runs. Raises `ValueError` with a sentence for each that cannot be removed."""
    if not options.chosen:
        raise ValueError(
            tr("No run is named. Name one or more (`trainyard runs` lists them), or give --older-than DAYS.")
        )
    # A link is named as it is, and not followed to another folder.
    found = dict.fromkeys(
        Path(text) if text and Path(text).is_symlink() else index.find(options.runs, text) for text in options.chosen
    )
    if problems := [problem for each in found if (problem := removal.why_not(each))]:
        raise ValueError(join_sentences(problems))
    return list(found)


def _older_runs(options: Namespace) -> list[Path]:
    """Return the runs that ended before `--older-than` days, newest first, without links."""
    if options.chosen:
        raise ValueError(tr("Both runs and --older-than are given. Give one of them."))
    if not (math.isfinite(options.older_than) and options.older_than >= 0):
        raise ValueError(
            tr("--older-than {older_than:g} is not a number of days. Give 0 or more.", older_than=options.older_than)
        )
    before = time.time() - options.older_than * DAY_S
    return [
        each.dir
        for each in all_runs(options.runs)
        if state_info(each.state).over
        and not each.dir.is_symlink()
        # A run that never started counts from when its folder was made.
        and (each.ended or each.started or each.dir.stat().st_mtime) < before
    ]


def _show(options: Namespace, chosen: Sequence[Path]) -> None:
    if not chosen:
        say(tr("There is nothing to remove."))
    states = {each.dir: state_words(each.state) for each in all_runs(options.runs)}
    columns: tuple[Column[Path], ...] = (
        Column("run", lambda each: each.name),
        Column("state", lambda each: states.get(each, "over")),
        Column("disk", lambda each: disk(removal.size_bytes(each))),
    )
    say_rows(options, columns, chosen)


def _show_result(removed: Mapping[Path, Removed]) -> None:
    for each in removed.values():
        if each.problem:
            warn(each.problem)
    count = sum(not each.problem for each in removed.values())
    freed = sum(each.freed_bytes for each in removed.values())
    if count or freed:
        say(tr_plural("Removed {count} run and freed {freed} of disk space.",
                      "Removed {count} runs and freed {freed} of disk space.", count, freed=disk(freed)))


def _document(removed: Mapping[Path, Removed]) -> dict[str, object]:
    rows = [
        ({"run": run_dir.name, "dir": str(run_dir), "freed_bytes": each.freed_bytes}, each.problem)
        for run_dir, each in removed.items()
    ]
    return {
        "removed": [row for row, problem in rows if not problem],
        "kept": [{**row, "why": problem} for row, problem in rows if problem],
        "freed_bytes": sum(each.freed_bytes for each in removed.values()),
    }


COMMAND_LENGTH = 80
"""Characters of a command line that are shown."""


def add_sweep_options(parser: ArgumentParser) -> None:
    parser.add_argument("--end", action="store_true", help=tr("terminate them without asking"))


def sweep(options: Namespace) -> int:
    """Find processes left behind by runs that are over, and terminate them."""
    if trouble := removal.blind(PROC):
        raise RunError(trouble)
    found = removal.find_orphans([options.runs], PROC)
    if not options.json:
        _show_orphans(found)
    result: TerminationResult[OrphanedProcess] = TerminationResult()
    if found and (options.end or (not options.json and _may_terminate())):
        result = _end(found, options)
    if options.json:
        say_json({
            "leftovers": [_leftover(each) for each in found],
            "ended": [{**_brief(each.target), "signal": each.signal} for each in result.ended],
            "left": [{**_brief(each.target), "why": each.why} for each in result.left],
        })
    else:
        _show_terminated(result)
    return 1 if result.left else 0


def _may_terminate() -> bool:
    if is_interactive():
        return confirm(tr("Terminate them?"))
    warn(tr("No process was terminated: there is no terminal to ask on. `trainyard sweep --end` terminates them."))
    return False


def _end(found: Sequence[OrphanedProcess], options: Namespace) -> TerminationResult[OrphanedProcess]:
    """Terminate these processes, and those that the same runs have started in the meantime."""
    runs = {each.run_id for each in found}
    shown = iter([found])  # first those that the user has seen, even if they would not be found again
    return terminate(
        lambda: (
            next(shown, None) or [each for each in removal.find_orphans([options.runs], PROC) if each.run_id in runs]
        ),
        proc=PROC,
    )


def _show_orphans(found: Sequence[OrphanedProcess]) -> None:
    if not found:
        say(tr("No processes are left from runs that are over."))
    headings = ("PID", "AGE", "MEMORY", "RUN", "COMMAND")
    for why in dict.fromkeys(each.why for each in found):
        say(tr("{why} Processes left:", why=replace_control_characters(why)))
        say_table([headings, *(_orphan_row(each) for each in found if each.why == why)], indent="  ")


def _orphan_row(found: OrphanedProcess) -> list[str]:
    command = shortened(replace_control_characters(found.command), COMMAND_LENGTH)
    memory = "-" if found.memory_bytes is None else size(found.memory_bytes)
    return [str(found.process.pid), _age(found.age_s), memory, replace_control_characters(found.run_id), command]


def _age(seconds: float) -> str:
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return tr("{seconds:.0f} s", seconds=seconds)


def _show_terminated(result: TerminationResult[OrphanedProcess]) -> None:
    for each in result.ended:
        say(tr("Terminated {target} with {signal}.", target=_words(each.target), signal=each.signal))
    for other in result.left:
        warn(tr("Not terminated: {target}, which is still running. {why}", target=_words(other.target), why=other.why))


def _words(found: OrphanedProcess) -> str:
    return replace_control_characters(
        tr("pid {pid} {found} of run {run_id}", pid=found.process.pid, found=found.name, run_id=found.run_id)
    )


def _leftover(found: OrphanedProcess) -> dict[str, Any]:
    return {
        **_brief(found), "created": found.process.created, "dir": str(found.run_dir) if found.run_dir else None,
        "user": found.user, "age_s": found.age_s, "memory_bytes": found.memory_bytes, "why": found.why,
    }


def _brief(found: OrphanedProcess) -> dict[str, Any]:
    return {"pid": found.process.pid, "run": found.run_id, "name": found.name, "command": found.command}
