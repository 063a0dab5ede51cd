"""Find the Pythons of this machine while the user chooses one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from core.pythons.discovery import PythonSearch

if TYPE_CHECKING:
    from pathlib import Path

    from core.pythons.discovery import FoundPython


class PythonFinder(QObject):
    """`poll` never blocks. A Python that has answered is not asked again."""

    found = Signal(list)
    """All that is known by now."""

    def __init__(self, *, is_here: bool = True) -> None:
        """`is_here`: whether runs are started on this machine; the Pythons of another one are not searched here."""
        super().__init__()
        self._is_here = is_here
        self._search: PythonSearch | None = None
        self._near: Path | None = None
        self._entries: list[FoundPython] = []

    def search(self, near: Path | None) -> None:
        """Search, beginning near this folder. The same folder, or one that does not exist, changes nothing."""
        if not self._is_here:
            return
        if self._search is None:
            self._search = PythonSearch()
        elif near == self._near or (near is not None and not near.is_dir()):
            return
        self._near = near
        self._search.start(near)

    def poll(self) -> None:
        """Continue the search."""
        if self._search is None or self._search.done:
            return
        entries = self._search.poll()
        if entries != self._entries:
            self._entries = entries
            self.found.emit(entries)

    def close(self) -> None:
        """End the search and its processes."""
        if self._search is not None:
            self._search.close()
            self._search = None
