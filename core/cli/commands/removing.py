"""The command `remove`: the folders of runs that are over."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from core.cli.output import say, say_json, say_rows, warn
from core.runs import index, removal
from core.runs.states import state_info
from core.units import disk

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence

    from core.runs.index import RunSummary
    from core.runs.removal import Removed

DAY_S = 86_400.0


def add_options(parser: ArgumentParser) -> None:
    """What `remove` takes."""
    parser.add_argument("chosen", metavar="RUN", nargs="*", help="as for `show`; several may be named")
    parser.add_argument(
        "--older-than", type=float, metavar="DAYS", help="in place of names: all that ended more than so long ago"
    )
    parser.add_argument("--yes", action="store_true", help="remove them without being asked")


def remove(options: Namespace) -> int:
    """Remove runs that are over: their folders, with checkpoints and logs."""
    chosen = _old(options) if options.older_than is not None else _named(options)
    if not options.json:
        _show(options, chosen)
    if chosen and not _agreed(options, len(chosen)):
        return 0
    done = {run_dir: removal.remove(run_dir) for run_dir in chosen}
    if options.json:
        say_json(_document(done))
    else:
        _tell(done)
    return 1 if any(each.problem for each in done.values()) else 0


# -- which ---------------------------------------------------------------------------------------


def _named(options: Namespace) -> list[Path]:
    """Raises `ValueError` with a sentence for each that cannot be removed: then none is."""
    if not options.chosen:
        raise ValueError("No run is named. Name one or more (`trainyard runs` lists them), or give --older-than DAYS.")
    found = list(dict.fromkeys(_meant(options.runs, text) for text in options.chosen))
    if problems := [problem for each in found if (problem := removal.why_not(each))]:
        raise ValueError(" ".join(problems))
    return found


def _meant(root: Path, text: str) -> Path:
    """The folder that is meant; a link is not followed to another."""
    return Path(text) if text and Path(text).is_symlink() else index.find(root, text)


def _old(options: Namespace) -> list[Path]:
    """The runs that are over and ended so long ago, the newest first. What is linked to is not among them."""
    if options.chosen:
        raise ValueError("Both runs and --older-than are given. Give one of them.")
    if not (math.isfinite(options.older_than) and options.older_than >= 0):
        raise ValueError(f"--older-than {options.older_than:g} is no number of days. Give 0 or more.")
    before = time.time() - options.older_than * DAY_S
    return [
        each.dir
        for each in index.RunIndex(options.runs).poll()
        if state_info(each.state).over and not each.dir.is_symlink() and _ended(each) < before
    ]


def _ended(summary: RunSummary) -> float:
    """Of one that never came up: when it was asked for."""
    return summary.ended or summary.started or summary.dir.stat().st_mtime


# -- asked, and done -----------------------------------------------------------------------------


def _agreed(options: Namespace, count: int) -> bool:
    """Whether they shall go. Raises `ValueError` with a sentence where nobody can be asked."""
    if options.yes:
        return True
    if options.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ValueError("nobody can be asked here, so nothing is removed. Add --yes to remove without being asked.")
    try:
        what = "this run" if count == 1 else f"these {count} runs"
        return input(f"Remove {what}? It cannot be taken back. [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        say("")
        return False


# -- what is said --------------------------------------------------------------------------------


def _show(options: Namespace, chosen: Sequence[Path]) -> None:
    if not chosen:
        say("There is nothing to remove.")
    states = {each.dir: state_info(each.state).label.lower() for each in index.RunIndex(options.runs).poll()}
    rows = [
        {"run": each.name, "state": states.get(each, "over"), "disk": disk(removal.size_bytes(each))} for each in chosen
    ]
    say_rows(options, rows, ("run", "state", "disk"))


def _tell(done: Mapping[Path, Removed]) -> None:
    for each in done.values():
        if each.problem:
            warn(each.problem)
    gone = [each for each in done.values() if not each.problem]
    freed = sum(each.freed_bytes for each in done.values())
    if gone or freed:
        say(f"Removed {len(gone)} {'run' if len(gone) == 1 else 'runs'}: {disk(freed)} of disk came back.")


def _document(done: Mapping[Path, Removed]) -> dict[str, object]:
    rows = [
        {"run": run_dir.name, "dir": str(run_dir), "freed_bytes": each.freed_bytes, "why": each.problem or None}
        for run_dir, each in done.items()
    ]
    return {
        "removed": [{name: value for name, value in each.items() if name != "why"} for each in rows if not each["why"]],
        "kept": [each for each in rows if each["why"]],
        "freed_bytes": sum(each.freed_bytes for each in done.values()),
    }
