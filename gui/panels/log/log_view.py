"""The end of a run's output, followed as it grows, in the colours it was printed in."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QColor, QTextCharFormat, QTextCursor, QTextDocument
from PySide6.QtWidgets import QPlainTextEdit, QTextEdit

from .ansi_colours import char_format
from .file_tail import MAX_LINES, PIECE_BYTES, FileTail
from .terminal import PLAIN, Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from PySide6.QtGui import QResizeEvent, QTextBlock

    from gui.style.theme import Theme

    from .terminal import Change, Style

SLACK_LINES = 300
"""Lines are taken away so many at a time: one by one costs twenty times as much."""
TURN_S = 0.012
"""So long text is taken in at once. What is left waits, so that the window answers."""
PIECE_S, MIN_BYTES = 0.003, 1024
"""A piece is as large as is shown in such a time, at the speed of the last ones: one in many colours takes longer."""
LOADING_MS = 25
"""Between two turns until what was there at first is shown; later, they come with the window's beats."""
MAX_MARKS = 500
"""Places that are marked at once."""
STYLE_PROPERTY = QTextCharFormat.Property.UserProperty.value + 1
"""Where a format keeps the number of the style that it stands for."""
NOTHING_YET, NOTHING = "The run has printed nothing yet.", "The run printed nothing."
NO_RUN = "What a run prints appears here."


class LogView(QPlainTextEdit):
    """Stays at the end while it follows; who has scrolled up to read is left in peace."""

    follow_changed = Signal(bool)
    """Whether the end is followed."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("logView")
        self.setAccessibleName("Log of the run")
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self._theme = theme
        self._formats: dict[Style, QTextCharFormat] = {}
        self._styles: list[Style] = []
        """Those of the formats, by their numbers."""
        self._tail: FileTail | None = None
        self._terminal = Terminal()
        self._follows, self._moving = True, False
        self._piece_bytes = MIN_BYTES
        self._wanted = ""
        self.revision = 0
        """Rises whenever the text is another."""
        self._loading = QTimer(self)
        self._loading.setSingleShot(True)
        self._loading.setInterval(LOADING_MS)
        self._loading.timeout.connect(self._load)
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        self.show_file(None)

    # -- what is shown ---------------------------------------------------------------------------

    def show_file(self, path: Path | None) -> None:
        """Show another file from now on, from its end."""
        self._tail = FileTail(path) if path else None
        self._begin_anew()
        self.set_follows(True)
        self.show_over(over=False)
        if path:
            self._loading.start()
        else:
            self._loading.stop()

    def show_over(self, *, over: bool) -> None:
        """Say of a run that has printed nothing whether it still may."""
        self.setPlaceholderText(NO_RUN if self._tail is None else NOTHING if over else NOTHING_YET)

    def follow(self) -> None:
        """Take in what was written since the last call, as much as there is time for."""
        self._take_in_for(TURN_S)

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self._theme = theme
        styles, self._styles = self._styles, []
        self._formats.clear()
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        for begin, end, number in list(self._styled()):
            cursor.setPosition(begin)
            cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
            cursor.setCharFormat(self._format(styles[number]))
        cursor.endEditBlock()
        self._highlight()

    # -- following -------------------------------------------------------------------------------

    @property
    def follows(self) -> bool:
        """Whether the end is followed."""
        return self._follows

    def set_follows(self, follows: bool) -> None:
        """Stay at the end from now on, or where it is."""
        if follows:
            self._to_end()
        if follows != self._follows:
            self._follows = follows
            self.follow_changed.emit(follows)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """The end stays the end."""
        moving, self._moving = self._moving, True
        super().resizeEvent(event)
        if self._follows:
            self._to_end()
        self._moving = moving
        self._highlight()

    def _scrolled(self, value: int) -> None:
        if not self._moving:
            self.set_follows(value >= self.verticalScrollBar().maximum())
            self._highlight()

    def _to_end(self) -> None:
        moving, self._moving = self._moving, True
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())
        self._moving = moving

    # -- searching -------------------------------------------------------------------------------

    def look_for(self, text: str) -> None:
        """Mark wherever this stands, upper or lower case; no text marks nothing."""
        self._wanted = text
        self._highlight()

    def find_again(self, *, backwards: bool, stay: bool = False) -> bool:
        """Select the next place, or the one before; beyond the last, the first. `stay`: that of now, if it is one."""
        flags = QTextDocument.FindFlag.FindBackward if backwards else QTextDocument.FindFlag(0)
        cursor = self.textCursor()
        if not cursor.hasSelection():
            cursor = self.cursorForPosition(self.viewport().rect().bottomRight())
        elif stay:
            begin = cursor.selectionStart()
            flags = flags if self.document().find(self._wanted, begin).selectionStart() != begin else flags & ~flags
            cursor.setPosition(begin)
        found = self.document().find(self._wanted, cursor, flags)
        if found.isNull():
            around = QTextCursor(self.document())
            around.movePosition(QTextCursor.MoveOperation.End if backwards else QTextCursor.MoveOperation.Start)
            found = self.document().find(self._wanted, around, flags)
        if found.isNull():
            cursor.clearSelection()
            self.setTextCursor(cursor)
            return False
        self.set_follows(False)
        self._moving = True  # that it is at the end by chance is no wish to follow
        self.setTextCursor(found)
        self._moving = False
        self._highlight()
        return True

    def places(self) -> tuple[int, int]:
        """Which of the places is selected, from 1 (0: none), and how many there are."""
        wanted, cursor = self._wanted.lower(), self.textCursor()
        if not wanted:
            return 0, 0
        whole = self.toPlainText().lower()
        if cursor.selectedText().lower() != wanted:
            return 0, whole.count(wanted)
        before = QTextCursor(self.document())
        before.setPosition(cursor.selectionStart(), QTextCursor.MoveMode.KeepAnchor)
        return before.selectedText().lower().count(wanted) + 1, whole.count(wanted)

    def _highlight(self) -> None:
        """Mark the places that can be seen: there may be a hundred thousand."""
        marks = []
        if self._wanted:
            look = QTextCharFormat()
            look.setBackground(QColor(self._theme.warn_soft))
            look.setForeground(QColor(self._theme.warn))
            for found in islice(self._seen_places(), MAX_MARKS):
                mark = QTextEdit.ExtraSelection()
                mark.cursor, mark.format = found, look
                marks.append(mark)
        if marks or self.extraSelections():
            self.setExtraSelections(marks)

    def _seen_places(self) -> Iterator[QTextCursor]:
        for block in self._visible():
            found = QTextCursor(block)
            for _ in range(block.text().lower().count(self._wanted.lower())):  # else it is searched to the very end
                found = self.document().find(self._wanted, found)
                yield QTextCursor(found)

    def _visible(self) -> Iterator[QTextBlock]:
        block, at = self.firstVisibleBlock(), 0.0
        while block.isValid() and at < self.viewport().height():
            yield block
            at += self.blockBoundingRect(block).height()
            block = block.next()

    # -- taking in -------------------------------------------------------------------------------

    def _load(self) -> None:
        if self._take_in_for(TURN_S):
            self._loading.start()

    def _take_in_for(self, seconds: float) -> bool:
        """Whether there may be more."""
        until = time.perf_counter() + seconds
        revision, place = self.revision, self.verticalScrollBar().value()
        self._moving = True
        more = True
        while more and time.perf_counter() < until:
            more = self._take_in_piece()
        if self.revision != revision:
            self._trim(MAX_LINES + SLACK_LINES)
            if self._follows:
                self._to_end()
            else:
                self.verticalScrollBar().setValue(place)
            self._highlight()
        self._moving = False
        return more

    def _take_in_piece(self) -> bool:
        if not self._follows and self.blockCount() > MAX_LINES:
            return False  # what is read just now would have to go
        began = time.perf_counter()
        piece = self._tail.read(self._piece_bytes, may_pass_over=self._follows) if self._tail else None
        if piece is None:
            return False
        if piece.anew:
            self._begin_anew()
        if piece.passed_over and self._tail:
            self._insert(self._terminal.feed(f"\x1b[2m[… what came before is in {self._tail.path}]\x1b[m\n"))
        self._insert(self._terminal.feed(piece.text))
        self._trim(MAX_LINES + 2 * SLACK_LINES)
        took = time.perf_counter() - began
        if took > PIECE_S:
            self._piece_bytes = max(self._piece_bytes // 2, MIN_BYTES)
        elif took < PIECE_S / 2:
            self._piece_bytes = min(self._piece_bytes * 2, PIECE_BYTES)
        return True

    def _begin_anew(self) -> None:
        moving, self._moving = self._moving, True
        self._terminal = Terminal()
        self.clear()
        self.revision += 1
        self._moving = moving

    def _insert(self, change: Change) -> None:
        """Put the lines at the end, in the place of those that are no more: each stretch of one style at once."""
        if not change.lines and not change.replaced:
            return
        self.revision += 1
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        self._take_away_last(cursor, change.replaced)
        text, style = [], PLAIN
        if not change.replaced:
            text.append("\n")
        for number, line in enumerate(change.lines):
            if number:
                text.append("\n")
            for chunk, looks in line.chunks:
                if looks != style:
                    cursor.insertText("".join(text), self._format(style))
                    text, style = [], looks
                text.append(chunk)
        cursor.insertText("".join(text), self._format(style))
        cursor.endEditBlock()

    def _take_away_last(self, cursor: QTextCursor, lines: int) -> None:
        """Leave the cursor where the first of them began; without any, at the end."""
        cursor.movePosition(QTextCursor.MoveOperation.End)
        if lines:
            first = self.document().findBlockByNumber(max(self.blockCount() - lines, 0))
            cursor.setPosition(first.position(), QTextCursor.MoveMode.KeepAnchor)
            cursor.removeSelectedText()

    def _trim(self, most: int) -> None:
        """Take the first lines away where there are more than `most`, down to `MAX_LINES`."""
        if self.blockCount() > most:
            cursor = QTextCursor(self.document())
            first = self.document().findBlockByNumber(self.blockCount() - MAX_LINES)
            cursor.setPosition(first.position(), QTextCursor.MoveMode.KeepAnchor)
            cursor.removeSelectedText()

    def _format(self, style: Style) -> QTextCharFormat:
        if style not in self._formats:
            self._formats[style] = char_format(style, self._theme)
            if style != PLAIN:
                self._formats[style].setProperty(STYLE_PROPERTY, len(self._styles))
                self._styles.append(style)
        return self._formats[style]

    def _styled(self) -> Iterator[tuple[int, int, int]]:
        """Where there are characters that are not as usual, and the number of their style."""
        block = self.document().begin()
        while block.isValid():
            for each in block.textFormats():
                if each.format.hasProperty(STYLE_PROPERTY):
                    begin = block.position() + each.start
                    yield begin, begin + each.length, each.format.intProperty(STYLE_PROPERTY)
            block = block.next()
