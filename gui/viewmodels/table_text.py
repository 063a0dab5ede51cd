"""A table of the window as text, to be copied or saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.table import csv_text, markdown


@dataclass(frozen=True, slots=True, kw_only=True)
class TableText:
    """What a table shows. Both forms begin with a row of headings."""

    name: str
    """How the name of a file begins that it is saved to."""
    cells: Sequence[Sequence[str]]
    """As it is shown, for Markdown."""
    values: Sequence[Sequence[object]]
    """For CSV: numbers unrounded, sizes in bytes and times in seconds; None for what is unknown."""

    def text(self, kind: str) -> str:
        """Return the table as CSV for the kind `.csv`, else as Markdown."""
        return csv_text(self.values) if kind == ".csv" else markdown(self.cells)
