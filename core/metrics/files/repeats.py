"""Lines that come again because a program writes its whole log anew at every save."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


class Repeats:
    """Remembers every line of a file by a hash, eight bytes each; where the file differs, all that follows is new."""

    def __init__(self) -> None:
        self._told = array("q")
        self._at = 0

    def begin_anew(self) -> None:
        """The next line is the file's first."""
        self._at = 0

    def is_again(self, line: Hashable) -> bool:
        """Whether the file said the same at this place before."""
        said = hash(line)
        at, self._at = self._at, self._at + 1
        if at < len(self._told) and self._told[at] == said:
            return True
        del self._told[at:]
        self._told.append(said)
        return False
