"""The view of a log: follows the end of the file, in colour; and the bar that searches in it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent, QTextCharFormat, QTextCursor, QTextDocument
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QWidget

from core.diagnosis.terminal import PLAIN, Change, Style, Terminal, TerminalLine
from core.language import tr, tr_plural
from gui.base.formatting import number
from gui.base.theme import look, mark
from gui.features.log.files import MAX_LINES, PIECE_BYTES, FileTail, file_size, lines_after, lines_before
from gui.features.log.highlights import Highlights
from gui.features.log.terminal import char_format
from gui.widgets.buttons import compact_button
from gui.widgets.layouts import hbox
from gui.widgets.plain_text import PlainLabel, named

SLACK_LINES = 300
"""Lines to remove at a time: removing single lines costs twenty times as much."""
TURN_S = 0.012
"""Seconds to read at a time, so that the window stays responsive."""
PIECE_S, MIN_BYTES = 0.003, 1024
"""Target seconds per piece, and minimum bytes of a piece: text in many colours takes longer."""
LOADING_MS = 25
"""Milliseconds between two reads while loading; afterwards the window's timer calls `follow`."""
FAINT = Style(faint=True)
CHATTER = re.compile(
    r"(?:20\d\d-\d\d-\d\d [\d:.]+: (?=[IWE] \S+:\d+\])|(?=[IWE]\d{4} \d\d:\d\d:[\d.]+ +\d+ \S+:\d+\]))"
    r"(?:[IW]|E.*(?:Unable to register|failed call to cuInit))"
    r"|WARNING: All log messages before absl::InitializeLog"
)
"""Lines of TensorFlow's libraries about themselves, some of which look like errors. Real errors stay as they are."""
STYLE_PROPERTY = QTextCharFormat.Property.UserProperty.value + 1
"""Property of a format with the index of its style."""


class LogView(QPlainTextEdit):
    """Follows the end of the log until the user scrolls up."""

    follow_changed = Signal(bool)
    """True if the view follows the end."""
    part_changed = Signal()
    """Lines before or after those that are shown are missing now, or are missing no more."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "logView", tr("Log of the run"))
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self._formats: dict[Style, QTextCharFormat] = {}
        self._styles: list[Style] = []
        """Styles by the index that `STYLE_PROPERTY` holds."""
        self._tail: FileTail | None = None
        self._terminal = Terminal()
        self.follows = True
        """Whether it follows the end."""
        self._ignores_scrolling = False
        self._piece_bytes = MIN_BYTES
        self._query = ""
        look.changed.connect(self._recolour)
        self.highlights = Highlights(self)
        self._trimmed = False
        """Whether the first lines were removed, since there were too many."""
        self._told = (False, False)
        """What `part_changed` was last emitted for: `has_earlier`, `has_later`."""
        self._arrived: Callable[[], None] | None = None
        """Called once the part of the file that was asked for is there."""
        self.revision = 0
        """Increases with every change of the text."""
        self._loading = QTimer(self, singleShot=True, interval=LOADING_MS)
        self._loading.timeout.connect(self._load)
        self.verticalScrollBar().valueChanged.connect(self._on_scrolled)
        self.show_file(None)

    # -- what is shown ---------------------------------------------------------------------------

    def show_file(self, path: Path | None) -> None:
        """Show another file, starting at its end."""
        self._tail = FileTail(path) if path else None
        self._restart()
        self._arrived = None
        self.set_follows(True)
        if path:
            self._loading.start()
        else:
            self._loading.stop()

    @property
    def part(self) -> tuple[int, int | None]:
        """The part of the file that is shown, in bytes, about; without an end if the view is at the end of the file."""
        if self._tail is None:
            return 0, None
        begin = self._tail.begin
        if self._trimmed:
            begin = lines_before(self._tail.path, self._tail.offset, self.blockCount() - 1)
        return begin, self._tail.end

    @property
    def arriving(self) -> bool:
        """Whether a part of the file was asked for that is not there yet."""
        return self._arrived is not None

    @property
    def has_earlier(self) -> bool:
        """Whether the file has lines before those that are shown."""
        return self._tail is not None and (self._trimmed or self._tail.begin > 0)

    @property
    def has_later(self) -> bool:
        """Whether the view stays in a part of the file that has lines after it."""
        return self._tail is not None and self._tail.end is not None

    def show_part(self, begin: int, end: int, arrived: Callable[[], None] | None = None) -> None:
        """Show this part of the file in place of what is shown, and stay there; call `arrived` when it is there."""
        if self._tail is None:
            return
        self.set_follows(False)
        at_end = end >= file_size(self._tail.path)
        self._tail = FileTail(self._tail.path, begin, None if at_end else end)
        self._restart()
        self._arrived = arrived
        self._loading.start()

    def show_earlier(self) -> None:
        """Show the lines before those that are shown, from their end."""
        begin, _ = self.part
        if self._tail is not None and begin > 0:
            self.show_part(lines_before(self._tail.path, begin), begin, self._to_end)

    def show_later(self) -> None:
        """Show the lines after those that are shown."""
        _, end = self.part
        if self._tail is not None and end is not None:
            self.show_part(end, lines_after(self._tail.path, end))

    def follow(self) -> bool:
        """Read new text for up to `TURN_S` seconds; return True if there may be more."""
        return self._read_for(TURN_S)

    def _recolour(self) -> None:
        styles, self._styles = self._styles, []
        self._formats.clear()
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        for begin, end, style in list(self._styled_ranges()):
            cursor.setPosition(begin)
            cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
            cursor.setCharFormat(self._format(styles[style]))
        cursor.endEditBlock()

    # -- following -------------------------------------------------------------------------------

    def set_follows(self, follows: bool) -> None:
        """Follow the end, or stay at the current position."""
        if follows and self._tail is not None and self.has_later:
            self._tail = FileTail(self._tail.path)
            self._restart()
            self._loading.start()
        if follows:
            self._to_end()
        if follows != self.follows:
            self.follows = follows
            self.follow_changed.emit(follows)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Stay at the end while following."""
        with self._own_scrolling():
            super().resizeEvent(event)
            if self.follows:
                self._to_end()
        self.highlights.update_marks()

    def _on_scrolled(self, value: int) -> None:
        if not self._ignores_scrolling:
            self.set_follows(value >= self.verticalScrollBar().maximum() and not self.has_later)
            self.highlights.update_marks()

    @contextmanager
    def _own_scrolling(self) -> Iterator[None]:
        """Move the text without taking that for the user's scrolling."""
        moving, self._ignores_scrolling = self._ignores_scrolling, True
        try:
            yield
        finally:
            self._ignores_scrolling = moving

    def _to_end(self) -> None:
        with self._own_scrolling():
            self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())

    # -- searching -------------------------------------------------------------------------------

    def search(self, text: str) -> None:
        """Highlight all matches, ignoring case; the empty string removes the highlights."""
        self._query = text
        self.highlights.search(text)

    def find_again(self, *, backwards: bool, stay: bool = False, around: bool = True) -> bool:
        """Select the next or previous match. `stay`: keep the current selection if it matches.

        Return False if there is no match. `around`: go on at the other end; without it, the selection stays then.
        """
        flags = QTextDocument.FindFlag.FindBackward if backwards else QTextDocument.FindFlag(0)
        cursor = self.textCursor()
        if not cursor.hasSelection():
            cursor = self.cursorForPosition(self.viewport().rect().bottomRight())
        elif stay:
            begin = cursor.selectionStart()
            flags = flags if self.document().find(self._query, begin).selectionStart() != begin else flags & ~flags
            cursor.setPosition(begin)
        found = self.document().find(self._query, cursor, flags)
        if found.isNull() and not around:
            return False
        return self._select(found) if not found.isNull() else self.find_first(backwards=backwards)

    def find_first(self, *, backwards: bool) -> bool:
        """Select the first match from the beginning, or the last one; return False if there is no match."""
        flags = QTextDocument.FindFlag.FindBackward if backwards else QTextDocument.FindFlag(0)
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End if backwards else QTextCursor.MoveOperation.Start)
        return self._select(self.document().find(self._query, cursor, flags))

    def _select(self, found: QTextCursor) -> bool:
        """Select a match and show it; without one, select nothing and return False."""
        if found.isNull():
            cursor = self.textCursor()
            cursor.clearSelection()
            self.setTextCursor(cursor)
            return False
        self.set_follows(False)
        with self._own_scrolling():  # a match at the end must not start following
            self.setTextCursor(found)
        self.highlights.update_marks()
        return True

    def matches(self) -> tuple[int, int]:
        """Return the number of the selected match, from 1 (0: none), and the number of matches."""
        query, cursor = self._query.lower(), self.textCursor()
        if not query:
            return 0, 0
        whole = self.toPlainText().lower()
        if cursor.selectedText().lower() != query:
            return 0, whole.count(query)
        before = QTextCursor(self.document())
        before.setPosition(cursor.selectionStart(), QTextCursor.MoveMode.KeepAnchor)
        return before.selectedText().lower().count(query) + 1, whole.count(query)

    # -- taking in -------------------------------------------------------------------------------

    def _load(self) -> None:
        if self._read_for(TURN_S):
            self._loading.start()
            return
        arrived, self._arrived = self._arrived, None
        if arrived is not None:
            with self._own_scrolling():
                arrived()

    def _read_for(self, seconds: float) -> bool:
        """Read for some seconds; return True if there may be more."""
        until = time.perf_counter() + seconds
        revision, place = self.revision, self.verticalScrollBar().value()
        self._ignores_scrolling = True
        more = True
        while more and time.perf_counter() < until:
            more = self._read_piece()
        if self.revision != revision:
            if self.follows:
                self._trim(MAX_LINES + SLACK_LINES)
                self._to_end()
            else:
                self.verticalScrollBar().setValue(place)
            self.highlights.update_marks()
        self._ignores_scrolling = False
        if self._told != (self.has_earlier, self.has_later):
            self._told = self.has_earlier, self.has_later
            self.part_changed.emit()
        return more

    def _read_piece(self) -> bool:
        if not self.follows and self.blockCount() > MAX_LINES:
            return False  # would remove lines that the user is reading
        began = time.perf_counter()
        piece = self._tail.read(self._piece_bytes, may_skip=self.follows) if self._tail else None
        if piece is None:
            return False
        if piece.restarts:
            self._restart()
        self._insert(self._terminal.feed(piece.text))
        if self.follows:
            self._trim(MAX_LINES + 2 * SLACK_LINES)
        took = time.perf_counter() - began
        if took > PIECE_S:
            self._piece_bytes = max(self._piece_bytes // 2, MIN_BYTES)
        elif took < PIECE_S / 2:
            self._piece_bytes = min(self._piece_bytes * 2, PIECE_BYTES)
        return True

    def _restart(self) -> None:
        with self._own_scrolling():
            self._terminal = Terminal()
            self.clear()
        self._trimmed = False
        self.revision += 1

    def _insert(self, change: Change) -> None:
        """Replace the last lines; insert each stretch of one style at once."""
        if not change.lines and not change.replaced:
            return
        self.revision += 1
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        self._remove_last(cursor, change.replaced)
        text, style = [], PLAIN
        if not change.replaced:
            text.append("\n")
        for at, line in enumerate(change.lines):
            if at:
                text.append("\n")
            for chunk, looks in _dimmed(line):
                if looks != style:
                    cursor.insertText("".join(text), self._format(style))
                    text, style = [], looks
                text.append(chunk)
        cursor.insertText("".join(text), self._format(style))
        cursor.endEditBlock()

    def _remove_last(self, cursor: QTextCursor, lines: int) -> None:
        """Remove the last lines and leave the cursor where they began."""
        cursor.movePosition(QTextCursor.MoveOperation.End)
        if lines:
            first = self.document().findBlockByNumber(max(self.blockCount() - lines, 0))
            cursor.setPosition(first.position(), QTextCursor.MoveMode.KeepAnchor)
            cursor.removeSelectedText()

    def _trim(self, limit: int) -> None:
        """Remove the first lines if there are more than `limit`, down to `MAX_LINES`."""
        if self.blockCount() > limit:
            cursor = QTextCursor(self.document())
            first = self.document().findBlockByNumber(self.blockCount() - MAX_LINES)
            cursor.setPosition(first.position(), QTextCursor.MoveMode.KeepAnchor)
            cursor.removeSelectedText()
            self._trimmed = True

    def _format(self, style: Style) -> QTextCharFormat:
        if style not in self._formats:
            self._formats[style] = char_format(style)
            if style != PLAIN:
                self._formats[style].setProperty(STYLE_PROPERTY, len(self._styles))
                self._styles.append(style)
        return self._formats[style]

    def _styled_ranges(self) -> Iterator[tuple[int, int, int]]:
        """Yield start, end and style index of all styled text."""
        block = self.document().begin()
        while block.isValid():
            for each in block.textFormats():
                if each.format.hasProperty(STYLE_PROPERTY):
                    begin = block.position() + each.start
                    yield begin, begin + each.length, each.format.intProperty(STYLE_PROPERTY)
            block = block.next()


def _dimmed(line: TerminalLine) -> list[tuple[str, Style]]:
    """Return the chunks of a line; one of `CHATTER` is faint."""
    if len(line.chunks) == 1 and line.chunks[0][1] == PLAIN and CHATTER.match(line.chunks[0][0]):
        return [(line.chunks[0][0], FAINT)]
    return line.chunks


class SearchBar(QWidget):
    """Hidden until opened. Enter selects the next match, Shift+Enter the previous one, Escape closes the bar."""

    changed = Signal(str)
    """The searched text has changed; the empty string after closing."""
    step_asked = Signal(bool)
    """The next match is requested (False), or the previous one (True)."""
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.field = named(QLineEdit(), "searchField", tr("Search in the log"))
        self.field.setPlaceholderText(tr("Search in the log"))
        self.field.setClearButtonEnabled(True)
        self.field.installEventFilter(self)
        self.field.textChanged.connect(self.changed)
        self.count = PlainLabel(name="searchCount", role="small")
        back, on = (partial(self.step_asked.emit, backwards) for backwards in (True, False))
        self.previous = compact_button("", tr("Previous"), tr("Previous match (Shift+Enter)"), role="flat", does=back)
        self.next = compact_button("", tr("Next"), tr("Next match (Enter)"), role="flat", does=on)
        close = compact_button("", tr("Close"), tr("Close the search (Escape)"), role="flat", does=self.close_search)
        hbox(self, (self.field, 1), self.count, self.previous, self.next, close, gap=4, margins=(4, 2, 4, 2))
        self.show_matches(0, 0)
        self.hide()

    def open_search(self) -> None:
        """Show the bar and focus its field."""
        if self.isHidden() and self.field.text():
            self.changed.emit(self.field.text())
        self.show()
        self.field.setFocus()
        self.field.selectAll()

    def close_search(self) -> None:
        """Hide the bar; its text stays for the next search."""
        self.hide()
        self.changed.emit("")
        self.closed.emit()

    def show_matches(self, at: int, here: int, in_file: int | None = None) -> None:
        """Show the number of matches and of the selected one; `at` 0: none is selected.

        `in_file`: the matches in the whole file, of which only those `here` are shown; None if all are.
        """
        wanted = bool(self.field.text())
        some = here > 0 or bool(in_file)
        self.count.setText(_count_words(at, here, in_file) if wanted else "")
        for button in (self.previous, self.next):
            button.setEnabled(some)
        no_match = wanted and not some
        if no_match is not (self.field.property("tone") == "bad"):
            mark(self.field, tone="bad" if no_match else "")

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Handle Enter, Shift+Enter and Escape."""
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            if event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
                self.step_asked.emit(bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier))
                return True
            if event.key() == Qt.Key.Key_Escape:
                self.close_search()
                return True
        return super().eventFilter(watched, event)


def _count_words(at: int, here: int, in_file: int | None) -> str:
    """Return `3 of 51`, or `3 of 51 here, 2 062 in all`."""
    if not here and not in_file:
        return tr("no matches")
    place, count = number(at, 1), number(here, 1)
    if in_file is None and at:
        return tr("{at} of {count}", at=place, count=count)
    if in_file is None:
        return tr_plural("{shown} match", "{shown} matches", here, shown=count)
    shown = tr("{at} of {count} here", at=place, count=count) if at else tr("{count} here", count=count)
    return tr("{shown}, {count} in all", shown=shown, count=number(max(in_file, here), 1))
