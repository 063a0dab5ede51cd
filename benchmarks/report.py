"""Report what a benchmark measured: a table for people, a JSON file for comparison."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence

RESULTS = Path(__file__).with_name("results")


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under a header, the columns aligned."""
    lines = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    print(f"\n{title}")
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


class Stolen:
    """The share of all cores' time that the host of a virtual machine took away from it.

    A turn in which much was taken is of little use: the two sides of a pair lose different amounts.
    """

    def __init__(self) -> None:
        self._before = psutil.cpu_times()

    def share(self) -> float:
        """Since this object was made; 0 where the system does not tell."""
        after = psutil.cpu_times()
        whole = sum(after) - sum(self._before)
        return (getattr(after, "steal", 0.0) - getattr(self._before, "steal", 0.0)) / whole if whole > 0 else 0.0


def write_json(name: str, data: object) -> Path:
    """Write `results/NAME.json`: the data, and where and when they were measured."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    document = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": data,
    }
    path.write_text(json.dumps(document, indent=2) + "\n")
    return path
