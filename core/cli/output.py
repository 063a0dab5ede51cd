"""What the command line says: facts on stdout, everything else on stderr. The one place that prints."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING

from core.runs.output_log import printed_logs
from core.runs.run import Run
from core.runs.states import state_info
from core.runs.verdicts import Verdict, worst
from core.series import report
from core.system.process_info import shortened
from core.text import replace_control_characters
from core.units import size

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from core.runs.facts import RunFacts
    from core.runs.verdicts import Release


def say(text: str) -> None:
    """Print a line of the answer to stdout."""
    print(replace_control_characters(text, keep="\n\t"))


def warn(text: str) -> None:
    """Print a message to stderr."""
    print("trainyard:", replace_control_characters(text, keep="\n\t"), file=sys.stderr)


def say_json(document: object) -> None:
    """The one JSON document of a command with `--json`."""
    say(json.dumps(_plain(document), indent=2, allow_nan=False))


def _plain(document: object) -> object:
    """JSON has no NaN: a number that is none is given as the text `nan`, `inf` or `-inf`, wherever it stands."""
    if isinstance(document, float) and not math.isfinite(document):
        return str(document)
    if isinstance(document, dict):
        return {name: _plain(value) for name, value in document.items()}
    return [_plain(value) for value in document] if isinstance(document, (list, tuple)) else document


def say_run(options: Namespace, run: Run, line: str) -> None:
    """A run: what `show --json` prints, or this line for people."""
    if options.json:
        again = Run.attach(run.dir)
        say_json(report.document(again, report.read_all(again)))
    else:
        say(line)


def say_rows(options: Namespace, rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> int:
    """Facts as one JSON document, or these of their fields for people, below headings. Returns the exit code."""
    if options.json:
        say_json(rows)
        return 0
    if rows:
        headings = [column.upper() for column in columns]
        _say_table([headings, *([short(each[column]) for column in columns] for each in rows)])
    return 0


def _say_table(lines: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        say("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def ending(ended: Run) -> str:
    """What became of a run, in a word."""
    return f"{ended.id}: {state_info(ended.facts.state).label.lower()}"


def outcome(ended: Run, loss: float | None) -> str:
    """The same with its last loss and the verdict on its devices' memory, as far as there are such."""
    parts = [ending(ended)]
    if loss is not None:
        parts.append(f"loss {short(loss)}")
    if ended.facts.releases:
        parts.append(f"memory {worst(each.verdict for each in ended.facts.releases.values()).value}")
    return ", ".join(parts)


def log_of(failed: Run) -> str | None:
    """Where to look for more on an error; None where nothing was printed."""
    logs = ", ".join(str(path) for path in printed_logs(failed.dir))
    what = "The traceback and all that the run printed are" if failed.facts.traceback else "All that the run printed is"
    return f"{what} in {logs}." if logs else None


def release_lines(facts: RunFacts) -> list[str]:
    """What became of the devices' memory after the end, a line each; and what had to be ended."""
    lines = []
    for name, found in facts.releases.items():
        label = facts.devices.get(name, {}).get("label") or name
        steps = " -> ".join(size(each) if each is not None else "-" for each in _memory(found))
        lines.append(f"memory of {label}: {found.verdict.value}, {steps} (before -> peak -> after), {_seconds(found)}")
        if found.verdict is not Verdict.RELEASED:
            lines.append(f"  {found.sentence}")
    for each in facts.ended_processes:
        what = " ".join(word for word in (f"pid {each.pid}", each.name) if word)
        lines.append(f"ended by the {each.by}: {what} ({each.signal}) {shortened(each.command or '', 80)}".rstrip())
    return lines


def _memory(found: Release) -> tuple[int | None, ...]:
    return found.before_bytes, found.peak_bytes, found.after_bytes


def _seconds(found: Release) -> str:
    return f"{found.seconds:.1f} s after the end"


def short(value: object) -> str:
    """A field for people."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value) if value is not None else "-"
