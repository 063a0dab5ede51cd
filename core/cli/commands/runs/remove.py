"""The command `remove`: delete the folders of runs that are over."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

from core.cli.commands.common import all_runs
from core.cli.output import confirm, is_interactive, say, say_json, say_rows, warn
from core.history import index, removal
from core.language import join_sentences, tr, tr_plural
from core.runs.facts.states import state_info
from core.table import Column
from core.units import disk

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence

    from core.history.removal import Removed
    from core.history.summary import RunSummary

DAY_S = 86_400.0


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `remove`."""
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
    if chosen and not _confirmed(options, len(chosen)):
        return 0
    removed = {run_dir: removal.remove(run_dir) for run_dir in chosen}
    if options.json:
        say_json(_document(removed))
    else:
        _show_result(removed)
    return 1 if any(each.problem for each in removed.values()) else 0


# -- which runs ----------------------------------------------------------------------------------


def _named_runs(options: Namespace) -> list[Path]:
    """Return the folders of the named runs. Raises `ValueError` with a sentence for each that cannot be removed."""
    if not options.chosen:
        raise ValueError(
            tr("No run is named. Name one or more (`trainyard runs` lists them), or give --older-than DAYS.")
        )
    found = list(dict.fromkeys(_folder(options.runs, text) for text in options.chosen))
    if problems := [problem for each in found if (problem := removal.why_not(each))]:
        raise ValueError(join_sentences(problems))
    return found


def _folder(root: Path, text: str) -> Path:
    """Return the folder of a run. A link is returned as it is, and not followed to another folder."""
    return Path(text) if text and Path(text).is_symlink() else index.find(root, text)


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
        if state_info(each.state).over and not each.dir.is_symlink() and _ended(each) < before
    ]


def _ended(summary: RunSummary) -> float:
    """Return when a run ended, in unix seconds; for one that never started, when its folder was made."""
    return summary.ended or summary.started or summary.dir.stat().st_mtime


# -- for people ----------------------------------------------------------------------------------


def _confirmed(options: Namespace, count: int) -> bool:
    """Return whether the runs may be removed. Raises `ValueError` if there is no terminal to ask on."""
    if options.yes:
        return True
    if options.json or not is_interactive():
        raise ValueError(
            tr("Nothing was removed: there is no terminal to confirm on. Add --yes to remove without asking.")
        )
    return confirm(
        tr_plural("Remove this run? This cannot be undone.", "Remove these {count} runs? This cannot be undone.", count)
    )


def _show(options: Namespace, chosen: Sequence[Path]) -> None:
    if not chosen:
        say(tr("There is nothing to remove."))
    states = {each.dir: tr(state_info(each.state).label).lower() for each in all_runs(options.runs)}
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
        say(
            tr_plural(
                "Removed {count} run and freed {freed} of disk space.",
                "Removed {count} runs and freed {freed} of disk space.",
                count,
                freed=disk(freed),
            )
        )


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
