"""Tables that grow by a row: Lightning's `CSVLogger`, Keras' `CSVLogger`, and what people write by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.metrics.files.growing import Growing
from core.metrics.files.line_file import LineFile
from core.metrics.files.record import reading_of
from core.metrics.files.table import cells_of, header_of, number

if TYPE_CHECKING:
    from pathlib import Path

    from core.metrics.common.reading import Reading
    from core.metrics.files.table import Header


class CsvFile(LineFile):
    """One table. Its first line names the columns; an empty cell, or one that is no number, is no value.

    Lightning writes the whole file anew when a column is added, and some programs at every save: rows that
    come again as they were are not told again. Where the table differs, it is told from there on.
    A line of names in between is a new header.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        """`offset`: the end of a row; those before it were there before the run."""
        super().__init__(path, offset)
        self._header: Header | None = header_of(Growing(path).read().split(b"\n")[0]) if offset else None

    def _begin_anew(self) -> None:
        super()._begin_anew()
        self._header = None

    def _read(self, line: bytes) -> Reading | None:
        if self._header is None:
            self._header = header_of(line)
            return None
        cells = cells_of(line, self._header.separator)
        if not any(number(cell) is not None for cell in cells):
            self._header = header_of(line) or self._header
            return None
        named = {name: cell for name, cell in zip(self._header.names, cells, strict=False) if cell and name}
        # With a column more, a row says the same: its cells are compared by their names.
        return None if self._repeats.is_again(tuple(sorted(named.items()))) else self._reading(named)

    @staticmethod
    def _reading(named: dict[str, str]) -> Reading | None:
        found = {name: number(cell) for name, cell in named.items()}
        return reading_of({name: value for name, value in found.items() if value is not None})
