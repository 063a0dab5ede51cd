"""The user's regular expression, used instead of the dialects: `epoch (?P<epoch>\\d+) .* cost (?P<loss>[\\d.]+)`.

Its named groups are metrics, except the counters `step`, `epoch` and `total`.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.language import tr, tr_noop, tr_plural
from core.metrics.reading import Reading, canonical, counts, is_counter
from core.metrics.text import matching
from core.metrics.text.printed_lines import PrintedLines
from core.schema.files import last_lines
from core.schema.paths import LOG_FILE
from core.system.helper_process import HelperProcess

LINE_S = 0.25
"""Seconds of processor time for one line: a thousand times what a suitable expression needs."""
MAX_CHARACTERS = 4096
"""Characters of a line that are matched; the rest is ignored."""
BATCH_LINES = 256
BATCH_CHARACTERS = 1 << 16
"""A batch is sent when it reaches either limit; it is answered before the next one is sent."""
SAMPLE_BYTES = 64 * 1024
"""Bytes at the end of a log to test an expression on: some hundred lines."""
SHOWN_CHARACTERS = 60
MAX_SLOW_LINES = 3
"""Lines that may take too long before an expression is disabled."""
TOTALS = frozenset({"total", "steps_total", "total_steps"})
REMEDY = tr_noop("Name at least one metric, for example (?P<loss>[\\d.]+).")


@dataclass(frozen=True, slots=True)
class Expression:
    """A regular expression that compiles and names a metric."""

    text: str

    def reading(self, groups: Mapping[str, str | None]) -> Reading | None:
        """Return the reading of a match; None if no metric in it is a number."""
        numbers = {name: value for name, group in groups.items() if (value := _number(group)) is not None}
        values = {canonical(name): value for name, value in numbers.items() if _is_metric(name)}
        if not values:
            return None
        step = next((value for name, value in numbers.items() if counts(name) == "step"), None)
        epoch = next((value for name, value in numbers.items() if counts(name) == "epoch"), None)
        total = next((value for name, value in numbers.items() if name in TOTALS), None)
        done = None if total is None else epoch if step is None else step
        return Reading(
            values=values,
            step=int(step) if step is not None and step.is_integer() else None,
            epoch=epoch,
            done=done,
            total=None if done is None else total,
            unit="" if done is None else "epochs" if step is None else "steps",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The matches of an expression in a piece of a log."""

    readings: tuple[Reading, ...] = ()
    lines: int = 0
    matched: int = 0
    """Number of lines that match."""
    problem: str | None = None
    """A sentence why the expression is not suitable."""


def compile_expression(text: str) -> Expression:
    """Check an expression. Raises `ValueError` with a sentence if it does not compile or names no metric."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about syntax that a later Python will read differently
            groups = re.compile(text).groupindex
    except re.error as error:
        where = tr(" at character {pos}", pos=error.pos + 1) if error.pos is not None else ""
        raise ValueError(
            tr("The expression is not a valid regular expression: {msg}{where}. Correct it.",
               msg=error.msg, where=where)
        ) from error
    except (OverflowError, RecursionError) as error:
        raise ValueError(tr("The expression is too large to be used: {error}. Shorten it.", error=error)) from error
    if not groups:
        raise ValueError(tr("The expression has no named group, so it names no metric. {remedy}", remedy=tr(REMEDY)))
    if not any(_is_metric(name) for name in groups):
        names = ", ".join(groups)
        raise ValueError(
            tr("The expression names only counters ({names}) and no metric. {remedy}", names=names, remedy=tr(REMEDY))
        )
    return Expression(text)


def try_expression(expression: str, run_dir: Path) -> Tried:
    """Return what the expression finds at the end of a run's log.

    Raises `ValueError` with a sentence if the expression is invalid.
    """
    return try_on(expression, last_lines(run_dir / LOG_FILE, SAMPLE_BYTES).encode())


def try_on(text: str, sample: bytes, seconds: float = 1.0) -> Tried:
    """Match the expression in a piece of a log. `seconds`: processor time for one line.

    Raises `ValueError` as `compile_expression`.
    """
    lines = PrintedLines(all_of_them=True)
    texts = [line.text for line in (*lines.take(sample), *lines.end())]
    expression = compile_expression(text)
    matcher = Matcher(expression, seconds=seconds, slow_lines=1)
    try:
        found = list(matcher.match(texts))
    finally:
        matcher.close()
    matched = [groups for groups in found if groups is not None]
    readings = tuple(reading for groups in matched if (reading := expression.reading(groups)) is not None)
    problem = matcher.problem
    if problem is None and matched and not readings:
        problem = tr(
            "The expression matches, but its groups hold no numbers. Put the brackets around the number alone."
        )
    return Tried(readings=readings, lines=len(texts), matched=len(matched), problem=problem)


def describe_result(found: Tried) -> str:
    if found.problem is not None:
        return found.problem
    if not found.lines:
        return tr("This log is still empty. Try again when the run has printed something.")
    lines = tr_plural("{count} line", "the last {count} lines", found.lines)
    if not found.readings:
        return tr("The expression matches none of {lines} of this log.", lines=lines)
    last = found.readings[-1]
    values = ", ".join(f"{name} {value:.6g}" for name, value in last.values.items())
    words = tr("{values} at step {step}", values=values, step=last.step) if last.step is not None else values
    return tr("The expression matches {matched} of {lines} of this log. The last match reads {last}.",
              matched=found.matched, lines=lines, last=words)


@dataclass(slots=True)
class Matcher:
    """Matches lines in a helper process, which is started at the first line and ended by `close`."""

    expression: Expression
    seconds: float = LINE_S
    slow_lines: int = MAX_SLOW_LINES
    problem: str | None = None
    """A sentence why the expression was disabled."""
    _process: HelperProcess | None = None
    _slow: int = field(default=0)

    def match(self, lines: Sequence[str]) -> Iterator[Mapping[str, str | None] | None]:
        """Yield the groups of each line's first match, or None; stop early if the expression is disabled."""
        for batch in _batches(lines):
            rest = batch
            while rest and self.problem is None:
                answers = self._ask(rest)
                yield from answers
                rest = rest[len(answers) :]
                if rest:
                    self._too_slow(rest[0])
                    yield None
                    rest = rest[1:]

    def close(self) -> None:
        """End the helper process."""
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def _ask(self, lines: Sequence[str]) -> list[Mapping[str, str | None] | None]:
        """Return the answers; fewer than lines if the process died at a line that took too long."""
        if self._process is None:
            self._process = HelperProcess([sys.executable, "-I", "-S", matching.__file__], stdin=True)
            _send(self._process, {"pattern": self.expression.text, "seconds": self.seconds})
        process = self._process
        _send(process, lines)
        answers: list[Mapping[str, str | None] | None] = []
        while len(answers) < len(lines) and (found := process.read_lines(wait=True)):
            answers += map(json.loads, found)
        return answers

    def _too_slow(self, line: str) -> None:
        """Clean up after the process died at a line, and give the expression up after too many."""
        self.close()
        self._slow += 1
        if self._slow >= self.slow_lines:
            shown = line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]}..."
            self.problem = tr(
                "The expression needs more than {seconds:g} s for the line {shown!r}, so it is not used. "
                "The cause is mostly a repetition within a repetition, such as (.*)* or (a+)+: write it without.",
                seconds=self.seconds,
                shown=shown,
            )


def _send(process: HelperProcess, message: object) -> None:
    process.send(json.dumps(message).encode() + b"\n", wait=True)


def _batches(lines: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for line in lines:
        batch.append(line[:MAX_CHARACTERS])
        size += len(batch[-1])
        if len(batch) >= BATCH_LINES or size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _is_metric(name: str) -> bool:
    return not is_counter(name) and name not in TOTALS


def _number(group: str | None) -> float | None:
    try:
        return None if group is None else float(group.replace(",", ""))
    except ValueError:
        return None
