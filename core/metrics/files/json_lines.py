"""JSON lines: the logs that programs keep, and the file that a program may append to for us.

The environment variable `TRAINYARD_METRICS` names a file. A program that appends lines such as

    {"step": 1, "loss": 0.5}

to it has its curves drawn, whatever it prints and in whatever language it is written. `step`, `epoch` and `time`
(unix seconds) may be left out; every other key with a number is a metric. NaN and Infinity are written as
Python's json writes them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from core.metrics.common.names import VALIDATION
from core.metrics.files.line_file import LineFile
from core.metrics.files.record import reading_of

if TYPE_CHECKING:
    from pathlib import Path

    from core.metrics.common.reading import Reading

VARIABLE = "TRAINYARD_METRICS"
EXAMPLE = '{"step": 1, "loss": 0.5}'
DEEPEST = 3
"""`{"train": {"loss": 0.5}}` is `train/loss`; what is nested deeper is no metric."""
PARTS = ("mode", "split", "phase")
"""Keys that say what a line is about, as OpenMMLab's logs do: `{"mode": "val", "accuracy": 0.9}`."""
SHOWN_CHARACTERS = 80


class JsonLines(LineFile):
    """One file of JSON lines. What is no object with a number under a metric's name is passed over and counted.

    Of a file that is written anew as a whole, lines that come again as they were are not told again.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        """`offset`: the end of a line; what is before it was there before the run."""
        super().__init__(path, offset)
        self.not_understood = 0
        """How many lines were passed over."""
        self.complaint = ""
        """Which was the first of them and why, in sentences for the user; "" when there was none."""

    def _read(self, line: bytes) -> Reading | None:
        if self._repeats.is_again(line):
            return None
        try:
            return read_object(line)
        except ValueError as error:
            self.not_understood += 1
            if not self.complaint:
                text = line[:SHOWN_CHARACTERS].decode("utf-8", "replace")
                self.complaint = (
                    f"A line of {self.path} was passed over: {error}. It reads {text!r};"
                    f" a line such as {EXAMPLE} is understood."
                )
            return None


def read_object(line: bytes) -> Reading:
    """One line as a reading. Raises `ValueError`, saying what is wrong with it, when it is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(found, dict):
        raise ValueError("it is no object")  # noqa: TRY004 (a line's fault, not a caller's)
    part = next((found[name] for name in PARTS if isinstance(found.get(name), str)), "")
    reading = reading_of(_numbers(found), validation=part.lower() in VALIDATION)
    if reading is None:
        raise ValueError("it has no number besides step, epoch and time")
    return reading


def _numbers(found: dict[str, object], before: str = "", depth: int = 1) -> dict[str, float]:
    """The numbers of an object by their names; what is none is passed over, as are truths."""
    numbers: dict[str, float] = {}
    for name, value in found.items():
        if isinstance(value, dict) and depth < DEEPEST:
            numbers |= _numbers(value, f"{before}{name}/", depth + 1)
        elif isinstance(value, float) or type(value) is int:
            try:
                numbers[before + name] = float(value)
            except OverflowError:
                continue  # a whole number of hundreds of digits
    return numbers
