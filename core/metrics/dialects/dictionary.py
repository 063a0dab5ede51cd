"""Dictionaries on a line, as the Hugging Face trainer prints them, and JSON objects: `{'loss': 0.52, 'epoch': 0.5}`."""

from __future__ import annotations

import ast
import json
import re
import warnings
from typing import TYPE_CHECKING

from core.metrics.common.names import canonical, counts, is_counter
from core.metrics.common.reading import Reading
from core.metrics.dialects.counters import step_position
from core.metrics.dialects.metrics import rank

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST = 8192
"""Characters of a dictionary that is read; Python's parser needs some microseconds for each hundred."""
NO_LITERAL = re.compile(r"(?<=[:,\[\s(])(-?)(nan|inf)(?=\s*[,}\])])", re.IGNORECASE)
WRAPPED = re.compile(r"(?:np\.float\d+|np\.int\d+|tensor|array)\(([^(),]*)(?:,[^()]*)?\)")
CONFIGURED = frozenset({
    "epochs", "num_epochs", "max_epochs", "n_epochs", "batch_size", "bs", "seed", "max_steps", "max_iters",
    "num_workers",
})  # fmt: skip
"""What is chosen before a training, and printed with all else that was: the learning rate there is no measurement."""
SUMMARY = "train_runtime"
"""The trainer's last words: their `train_loss` is a mean over the run and belongs to no step."""
LARGEST_STEP = 1 << 53
EARLIEST = 1e9
"""Unix seconds; a time below is one since the start of the program."""


def read(line: str) -> Reading | None:
    """The metrics of the dictionary on a line, or None where there is none, or none with metrics."""
    fields = _fields(line)
    if fields is None:
        return None
    if not CONFIGURED.isdisjoint(fields):
        return None
    if SUMMARY in fields:
        return Reading(values={}, epoch=_number(fields.get("epoch")))
    numbers = {name: value for name, field in fields.items() if (value := _number(field)) is not None}
    values = {canonical(name): value for name, value in numbers.items() if not is_counter(name)}
    if not any(rank(name) in {"known", "cautious"} for name in numbers) and not _placed(numbers):
        return None
    return _reading(line, numbers, values) if any(rank(name) for name in numbers) else None


def _placed(numbers: Mapping[str, float]) -> bool:
    return any(counts(name) for name in numbers)


def _reading(line: str, numbers: Mapping[str, float], values: Mapping[str, float]) -> Reading:
    before = step_position(line[: line.index("{")])
    step, epoch = before.step, before.epoch
    for name, value in numbers.items():
        if counts(name) == "step" and abs(value) < LARGEST_STEP and value.is_integer():
            step = int(value)
        if counts(name) == "epoch":
            epoch = value
    times = [numbers[name] for name in ("timestamp", "time", "ts", "_timestamp") if name in numbers]
    when = next((seconds for seconds in times if EARLIEST < seconds < 4 * EARLIEST), None)
    return Reading(values=values, step=step, epoch=epoch, time=when)


def _fields(line: str) -> Mapping[str, object] | None:
    begin, end = line.find("{"), line.rfind("}")
    if not 0 <= begin < end or end - begin > LONGEST:
        return None
    text = line[begin : end + 1]
    fields = _json(text)
    if fields is None:
        fields = _literal(text)
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        return None
    return fields


def _json(text: str) -> object:
    """JSON, with NaN and Infinity as Python writes them; None for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _literal(text: str) -> object:
    """A dictionary as Python prints it; None for what is none. `nan` and `inf` are no literals: they become texts."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a text that is no Python: not ours to tell
            return ast.literal_eval(NO_LITERAL.sub(r"'\1\2'", WRAPPED.sub(r"\1", text)))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _number(field: object) -> float | None:
    """A number, also one that is written as a text, as newer trainers do."""
    if isinstance(field, bool) or not isinstance(field, (int, float, str)):
        return None
    try:
        return float(field)
    except (ValueError, OverflowError):
        return None
