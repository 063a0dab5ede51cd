"""Test a regular expression on the log of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.language import tr, tr_plural
from core.metrics.text.expression import Tried, try_on
from core.runs.directory import last_lines
from core.schema.paths import LOG_FILE

if TYPE_CHECKING:
    from pathlib import Path

    from core.metrics.common.reading import Reading

SAMPLE_BYTES = 64 * 1024
"""Bytes at the end of the log to test on: some hundred lines."""


def try_expression(expression: str, run_dir: Path) -> Tried:
    """Return what the expression finds at the end of a run's log.

    Raises `ValueError` with a sentence if the expression is invalid.
    """
    return try_on(expression, last_lines(run_dir / LOG_FILE, SAMPLE_BYTES).encode())


def describe_result(found: Tried) -> str:
    """Describe the result in a sentence."""
    if found.problem is not None:
        return found.problem
    if not found.lines:
        return tr("This log is still empty. Try again when the run has printed something.")
    lines = tr_plural("{count} line", "the last {count} lines", found.lines)
    if not found.readings:
        return tr("The expression matches none of {lines} of this log.", lines=lines)
    last = _values(found.readings[-1])
    return tr(
        "The expression matches {matched} of {lines} of this log. The last match reads {last}.",
        matched=found.matched,
        lines=lines,
        last=last,
    )


def _values(reading: Reading) -> str:
    values = ", ".join(f"{name} {value:.6g}" for name, value in reading.values.items())
    return tr("{values} at step {step}", values=values, step=reading.step) if reading.step is not None else values
