"""A file of which every line is a record, as a source: what tables and JSON lines share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.metrics.files.growing_lines import GrowingLines
from core.metrics.files.repeats import Repeats

if TYPE_CHECKING:
    from pathlib import Path

    from core.metrics.common.reading import Reading


class LineFile:
    """Gives the readings of new lines. What a line says is up to those who derive from it.

    Programs write their whole log anew at every save: lines that come again as they were are not told again.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        """`offset`: the end of a line; what is before it was there before the run."""
        self.path = path
        self._lines = GrowingLines(path, offset)
        self._repeats = Repeats()

    @property
    def more(self) -> bool:
        """Whether the last poll left something that is there already."""
        return self._lines.more

    @property
    def trouble(self) -> str:
        """Why the file could not be read, in a sentence; "" when it could."""
        return self._lines.trouble

    def poll(self, *, ended: bool = False) -> list[Reading]:
        """The lines that were completed since the last call, at most a block: `more` tells whether to call again.

        With `ended`, the program is gone: then the last line needs no end.
        """
        lines = self._lines.read(ended=ended)
        if self._lines.restarted:
            self._begin_anew()
        readings = [self._read(line) for line in lines]
        return [reading for reading in readings if reading is not None]

    def _begin_anew(self) -> None:
        """The next line is the file's first."""
        self._repeats.begin_anew()

    def _read(self, line: bytes) -> Reading | None:
        """What a line says; None when that is nothing, or what it said at this place before (`_repeats`)."""
        raise NotImplementedError
