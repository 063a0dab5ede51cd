"""Dictionaries in a line, as the Hugging Face trainer prints them, and JSON objects: `{'loss': 0.52, 'epoch': 0.5}`."""

from __future__ import annotations

import ast
import json
import re
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from core.metrics.common.reading import Reading, by_our_names, certainty, counts, is_counter
from core.metrics.dialects import pairs
from core.metrics.dialects.syntax import step_position

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_CHARACTERS = 8192
"""Characters of a dictionary to read: Python's parser needs some microseconds for each hundred."""
NOT_LITERAL = re.compile(r"(?<=[:,\[\s(])(-?)(nan|inf)(?=\s*[,}\])])", re.IGNORECASE)
WRAPPED = re.compile(r"(?:np\.float\d+|np\.int\d+|tensor|array)\(([^(),]*)(?:,[^()]*)?\)")
SETTINGS = frozenset({
    "epochs", "num_epochs", "max_epochs", "n_epochs", "batch_size", "bs", "seed", "max_steps", "max_iters",
    "num_workers",
})  # fmt: skip
"""Keys of a dictionary of settings: the learning rate in it is not a measurement."""
SUMMARY = "train_runtime"
"""A key of the trainer's last line, whose `train_loss` is a mean over the run and belongs to no step."""
OPEN = re.compile(r"(?:^|[:\s])\{'[\w/.@ -]{1,60}': [^{}]{1,60},$")
"""The first line of a dictionary that `pprint` divides into lines: TensorFlow's object detection."""
MAX_STEP = 1 << 53
MIN_TIME = 1e9
"""Unix seconds. A smaller time counts from the start of the program."""


def begins(line: str) -> bool:
    """Return whether the dictionary that belongs to this line is on the next lines: `train | step: 100 | output:`."""
    if line.endswith("| output:"):
        return "step:" in line
    return line.endswith(",") and OPEN.search(line) is not None


def read(line: str) -> Reading | None:
    """Return the metrics of the dictionary in a line; None if there is no dictionary with metrics."""
    fields = _fields(line)
    if fields is None or not SETTINGS.isdisjoint(fields):
        return None
    if SUMMARY in fields:
        return Reading(values={}, epoch=_number(fields.get("epoch")))
    numbers = {name: value for name, field in fields.items() if (value := _number(field)) is not None}
    values, of_test = by_our_names([(name, value) for name, value in numbers.items() if not is_counter(name)])
    if not any(certainty(name) in {"known", "cautious"} for name in numbers) and not any(map(counts, numbers)):
        return None
    if not any(certainty(name) for name in numbers):
        return None
    reading = replace(_reading(line, numbers, values), of_test=of_test)
    return pairs.as_validation(reading) if pairs.is_about_validation(line[: line.index("{")]) else reading


def _reading(line: str, numbers: Mapping[str, float], values: Mapping[str, float]) -> Reading:
    before = step_position(line[: line.index("{")])
    step, epoch = before.step, before.epoch
    for name, value in numbers.items():
        if counts(name) == "step" and abs(value) < MAX_STEP and value.is_integer():
            step = int(value)
        if counts(name) == "epoch":
            epoch = value
    times = [numbers[name] for name in ("timestamp", "time", "ts", "_timestamp") if name in numbers]
    when = next((seconds for seconds in times if MIN_TIME < seconds < 4 * MIN_TIME), None)
    return Reading(values=values, step=step, epoch=epoch, time=when)


def _fields(line: str) -> Mapping[str, object] | None:
    begin, end = line.find("{"), line.rfind("}")
    if not 0 <= begin < end or end - begin > MAX_CHARACTERS:
        return None
    text = line[begin : end + 1]
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = _literal(text)
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        return None
    return _flat(fields)


def _flat(fields: Mapping[str, object]) -> Mapping[str, object]:
    """Return a dictionary with those in it taken apart: `{"eval": {"loss": 0.5}}` becomes `{"eval/loss": 0.5}`."""
    if not any(isinstance(value, dict) for value in fields.values()):
        return fields
    flat: dict[str, object] = {}
    for name, value in fields.items():
        inner = value if isinstance(value, dict) else {"": value}
        flat |= {f"{name}/{each}" if each else name: number for each, number in inner.items()}
    return flat


def _literal(text: str) -> object:
    """Parse a Python dictionary; return None for other text. `nan` and `inf` are not literals: they become strings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about text that is not Python
            return ast.literal_eval(NOT_LITERAL.sub(r"'\1\2'", WRAPPED.sub(r"\1", text)))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _number(field: object) -> float | None:
    """Return a field as a number; newer trainers write numbers as strings."""
    if isinstance(field, bool) or not isinstance(field, (int, float, str)):
        return None
    try:
        return float(field)
    except (ValueError, OverflowError):
        return None
