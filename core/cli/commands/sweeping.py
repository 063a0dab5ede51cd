"""The command `sweep`: what runs that are over have left behind, and its end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from core.cli.output import say, say_json, warn
from core.errors import RunError
from core.runs import leftovers
from core.system import processes, terminate
from core.system.process_info import shortened
from core.system.procfs import PROC
from core.system.terminate import Terminated, TerminationResult
from core.text import replace_control_characters
from core.units import size

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from typing import Any

    from core.runs.leftovers import OrphanedProcess
    from core.system.terminate import StillRunning

ROUNDS = 3
"""A process may start another while it is being ended: so often is looked again."""
COMMAND_LENGTH = 80


def sweep(options: Namespace) -> int:
    """Find the processes that runs which are over have left behind, and end them."""
    trouble = leftovers.blind(PROC)
    if trouble:
        raise RunError(trouble)
    found = leftovers.find([options.runs], PROC)
    if not options.json:
        _show(found)
    outcome: TerminationResult[OrphanedProcess] = TerminationResult()
    if found and (options.end or (not options.json and _agreed())):
        outcome = _end(found, options)
    if options.json:
        say_json(_document(found, outcome))
    else:
        _tell(outcome)
    return 1 if outcome.left else 0


def _agreed() -> bool:
    """Whether the person at the terminal wants them to be ended; without a terminal, how that is done is said."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        warn("they are left alone. `trainyard sweep --end` ends them.")
        return False
    try:
        return input("End them? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        say("")
        return False


def _end(found: Sequence[OrphanedProcess], options: Namespace) -> TerminationResult[OrphanedProcess]:
    """End them, and what the same runs have come up with meanwhile."""
    ended: list[Terminated[OrphanedProcess]] = []
    left: list[StillRunning[OrphanedProcess]] = []
    runs = {each.run_id for each in found}
    remaining: Sequence[OrphanedProcess] = found
    for _ in range(ROUNDS):
        outcome = terminate.end(remaining, proc=PROC)
        ended += outcome.ended
        left += outcome.left
        known = {each.whom.process for each in left}
        again = leftovers.find([options.runs], PROC)
        remaining = [each for each in again if each.run_id in runs and each.process not in known]
        if not remaining:
            break
    # One that took its time in the first round may be gone after the last.
    late = [each for each in left if not processes.is_alive(each.whom.process)]
    ended += [Terminated(whom=each.whom, signal=each.signal) for each in late if each.signal is not None]
    return TerminationResult(
        ended=tuple(ended),
        left=tuple(each for each in left if each not in late),
    )


# -- what is said --------------------------------------------------------------------------------


def _show(found: Sequence[OrphanedProcess]) -> None:
    if not found:
        say("Nothing is left of runs that are over.")
        return
    for why in dict.fromkeys(each.why for each in found):
        say(f"{replace_control_characters(why)} Left of it:")
        rows = [_cells(each) for each in found if each.why == why]
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        for row in rows:
            say("  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _cells(found: OrphanedProcess) -> list[str]:
    command = shortened(replace_control_characters(found.command), COMMAND_LENGTH)
    run_id = replace_control_characters(found.run_id)
    return [f"pid {found.process.pid}", _age(found.age_s), _memory(found.memory_bytes), run_id, command]


def _tell(outcome: TerminationResult[OrphanedProcess]) -> None:
    for each in outcome.ended:
        say(f"Ended {_words(each.whom)} by {each.signal}.")
    for other in outcome.left:
        warn(f"{_words(other.whom)} is still there. {other.why}")


def _words(found: OrphanedProcess) -> str:
    return replace_control_characters(f"pid {found.process.pid} {found.name} of run {found.run_id}")


def _age(seconds: float) -> str:
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _memory(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else size(size_bytes)


# -- JSON ----------------------------------------------------------------------------------------


def _document(found: Sequence[OrphanedProcess], outcome: TerminationResult[OrphanedProcess]) -> dict[str, Any]:
    return {
        "leftovers": [_leftover(each) for each in found],
        "ended": [_ended(each) for each in outcome.ended],
        "left": [{**_brief(each.whom), "why": each.why} for each in outcome.left],
    }


def _leftover(found: OrphanedProcess) -> dict[str, Any]:
    return {
        **_brief(found),
        "created": found.process.created,
        "dir": str(found.run_dir) if found.run_dir else None,
        "user": found.user,
        "age_s": found.age_s,
        "memory_bytes": found.memory_bytes,
        "why": found.why,
    }


def _ended(ended: Terminated[OrphanedProcess]) -> dict[str, Any]:
    return {**_brief(ended.whom), "signal": ended.signal}


def _brief(found: OrphanedProcess) -> dict[str, Any]:
    return {"pid": found.process.pid, "run": found.run_id, "name": found.name, "command": found.command}
