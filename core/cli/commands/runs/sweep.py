"""The command `sweep`: find and terminate processes that finished runs have left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.cli.output import confirm, is_interactive, say, say_json, say_table, warn
from core.errors import RunError
from core.history import leftovers
from core.language import tr
from core.schema.event_kinds import shortened
from core.system.procfs import PROC
from core.system.terminate import TerminationResult, terminate
from core.text import replace_control_characters
from core.units import size

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence
    from typing import Any

    from core.history.leftovers import OrphanedProcess

COLUMNS = ("PID", "AGE", "MEMORY", "RUN", "COMMAND")
COMMAND_LENGTH = 80
"""Characters of a command line that are shown."""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `sweep`."""
    parser.add_argument("--end", action="store_true", help=tr("terminate them without asking"))


def sweep(options: Namespace) -> int:
    """Find processes left behind by runs that are over, and terminate them."""
    if trouble := leftovers.blind(PROC):
        raise RunError(trouble)
    found = leftovers.find([options.runs], PROC)
    if not options.json:
        _show(found)
    result: TerminationResult[OrphanedProcess] = TerminationResult()
    if found and (options.end or (not options.json and _confirmed())):
        result = _end(found, options)
    if options.json:
        say_json(_document(found, result))
    else:
        _show_result(result)
    return 1 if result.left else 0


def _confirmed() -> bool:
    if is_interactive():
        return confirm(tr("Terminate them?"))
    warn(tr("No process was terminated: there is no terminal to ask on. `trainyard sweep --end` terminates them."))
    return False


def _end(found: Sequence[OrphanedProcess], options: Namespace) -> TerminationResult[OrphanedProcess]:
    """Terminate these processes, and those that the same runs have started in the meantime."""
    runs = {each.run_id for each in found}
    shown = iter([found])  # first those that the user has seen, even if they would not be found again
    return terminate(
        lambda: next(shown, None) or [each for each in leftovers.find([options.runs], PROC) if each.run_id in runs],
        proc=PROC,
    )


# -- for people ----------------------------------------------------------------------------------


def _show(found: Sequence[OrphanedProcess]) -> None:
    if not found:
        say(tr("No processes are left from runs that are over."))
    for why in dict.fromkeys(each.why for each in found):
        say(tr("{why} Processes left:", why=replace_control_characters(why)))
        say_table([COLUMNS, *(_row(each) for each in found if each.why == why)], indent="  ")


def _row(found: OrphanedProcess) -> list[str]:
    command = shortened(replace_control_characters(found.command), COMMAND_LENGTH)
    memory = "-" if found.memory_bytes is None else size(found.memory_bytes)
    return [str(found.process.pid), _age(found.age_s), memory, replace_control_characters(found.run_id), command]


def _age(seconds: float) -> str:
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return tr("{seconds:.0f} s", seconds=seconds)


def _show_result(result: TerminationResult[OrphanedProcess]) -> None:
    for each in result.ended:
        say(tr("Terminated {target} with {signal}.", target=_words(each.target), signal=each.signal))
    for other in result.left:
        warn(tr("Not terminated: {target}, which is still running. {why}", target=_words(other.target), why=other.why))


def _words(found: OrphanedProcess) -> str:
    return replace_control_characters(
        tr("pid {pid} {found} of run {run_id}", pid=found.process.pid, found=found.name, run_id=found.run_id)
    )


# -- JSON ----------------------------------------------------------------------------------------


def _document(found: Sequence[OrphanedProcess], result: TerminationResult[OrphanedProcess]) -> dict[str, Any]:
    return {
        "leftovers": [_leftover(each) for each in found],
        "ended": [{**_brief(each.target), "signal": each.signal} for each in result.ended],
        "left": [{**_brief(each.target), "why": each.why} for each in result.left],
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


def _brief(found: OrphanedProcess) -> dict[str, Any]:
    return {"pid": found.process.pid, "run": found.run_id, "name": found.name, "command": found.command}
