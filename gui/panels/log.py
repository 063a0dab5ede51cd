"""The end of a run's output, followed as it grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QPlainTextEdit

from gui.log_tail import LogTail

if TYPE_CHECKING:
    from pathlib import Path

    from gui.log_tail import News

MOST_LINES = 5000
NOTHING_YET, NOTHING = "The run has printed nothing yet.", "The run has printed nothing."
NO_RUN = "What a run prints appears here."


class LogView(QPlainTextEdit):
    """Stays at the end while it is there; who has scrolled up to read is left in peace."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("logView")
        self.setAccessibleName("Log of the run")
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setMaximumBlockCount(MOST_LINES)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self._tail: LogTail | None = None
        self.show_file(None)

    def show_file(self, path: Path | None) -> None:
        """Show another file from now on."""
        self._tail = LogTail(path) if path else None
        self.clear()
        self.show_over(over=False)

    def show_over(self, *, over: bool) -> None:
        """Say of a run that has printed nothing whether it still may."""
        self.setPlaceholderText(NO_RUN if self._tail is None else NOTHING if over else NOTHING_YET)

    def follow(self) -> None:
        """Take in what was written since the last call."""
        news = self._tail.read() if self._tail else None
        if news is None:
            return
        bar = self.verticalScrollBar()
        at_end = bar.value() >= bar.maximum() - 1
        place = bar.value()
        self._take_in(news)
        bar.setValue(bar.maximum() if at_end else place)

    def _take_in(self, news: News) -> None:
        """The last block is the line that is still being written: it is written anew."""
        lines = [*news.lines[-MOST_LINES:], news.pending]
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.movePosition(QTextCursor.MoveOperation.StartOfBlock, QTextCursor.MoveMode.KeepAnchor)
        cursor.insertText("\n".join(lines))
