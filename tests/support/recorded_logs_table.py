"""The table of understood programs in `docs/scripts.md`, made from the recorded logs.

python -m tests.support.recorded_logs_table    # write it again
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.recorded_logs import record, recorded_logs

if TYPE_CHECKING:
    from tests.support.recorded_logs import RecordedLog

DOCUMENT = Path(__file__).parents[2] / "docs" / "scripts.md"
BEGIN = "<!-- made by tests/support/recorded_logs_table.py from tests/recorded_logs -->\n"
END = "<!-- end of the table -->\n"
HEADER = "| kind | program | metrics |\n|---|---|---|\n"
SHOWN = 6
"""Metrics of a program to name."""


def table() -> str:
    """Return the table: a row for each program, sorted by kind and name."""
    logs = sorted(recorded_logs(), key=lambda log: (log.kind, log.program.lower()))
    return HEADER + "".join(map(_row, logs))


def document() -> str:
    """Return the whole document with the table as it must be."""
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


def _row(log: RecordedLog) -> str:
    curves, _ = record([log.data])
    names = [f"`{name}`" for name in curves]
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"| {log.kind} | {log.program} | {', '.join(names[:SHOWN]) or 'only progress'}{rest} |\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
