"""The tab Log, and its search."""

from __future__ import annotations

import time
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QComboBox, QLineEdit, QWidget

from core.language import tr, tr_plural
from core.schema.paths import log_of_rank
from gui.base.formatting import number
from gui.base.theme import mark
from gui.features.log.files import FileSearch, file_size, lines_after, lines_before
from gui.features.log.view import LogView
from gui.widgets.buttons import compact_button, compact_check
from gui.widgets.fields import ChoiceBox, row_of
from gui.widgets.layouts import hbox, vbox
from gui.widgets.plain_text import PlainLabel, named


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
        self.previous = compact_button("", tr("Previous"), tr("Previous match (Shift+Enter)"), role="flat")
        self.next = compact_button("", tr("Next"), tr("Next match (Enter)"), role="flat")
        close = compact_button("", tr("Close"), tr("Close the search (Escape)"), role="flat")
        self.previous.clicked.connect(lambda: self.step_asked.emit(True))
        self.next.clicked.connect(lambda: self.step_asked.emit(False))
        close.clicked.connect(self.close_search)
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


RECOUNT_S = 0.5
"""Seconds between two counts of the matches while the log grows."""
SPACING_PX = 8
"""Room between two of the controls."""


class LogPage(QWidget):
    """Shows the log of one rank. `controls` is laid out in the heading of the card."""

    rank_shown = Signal()
    """The log of another rank is shown from now on."""

    def __init__(self) -> None:
        super().__init__()
        self.view = LogView()
        self.search = SearchBar()
        self.rank_box = named(ChoiceBox(), "rankBox", tr("Rank"), tr("Process whose output is shown"), compact=True)
        self.rank_box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        follow = tr("Follow the end of the log; scrolling up stops this, scrolling to the end resumes it")
        self.follow_box = compact_check("followBox", tr("Follow"), follow, checked=True)
        self.search_button = compact_button("searchButton", tr("Search"), tr("Search in the log (Ctrl+F)"), role="flat")
        self.controls = row_of(self.rank_box, self.search_button, self.follow_box, spacing_px=SPACING_PX)
        self._file_search = FileSearch(self)
        self._show_earlier = compact_button("earlierButton", tr("Show earlier lines"), role="link")
        self._open_file = compact_button("openLogButton", tr("Open the whole log"), role="link")
        self._show_later = compact_button("laterButton", tr("Show later lines"), role="link")
        self.links = row_of(self._show_earlier, self._show_later, self._open_file, spacing_px=4)
        self._run_dir: Path | None = None
        self._ranks = 1
        self._counted: tuple[int, float] = (-1, 0.0)
        self._told = 0
        """Matches in the file when they were last shown."""
        layout = vbox(self, self.search, gap=2)
        layout.addWidget(self.links, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addWidget(self.view, 1)
        self._connect()

    def show_run(self, run_dir: Path | None) -> None:
        """Show the log of another run, rank 0 first; None shows nothing. The same run stays where it is."""
        if run_dir is not None and run_dir == self._run_dir:
            return
        self._run_dir = run_dir
        self._offer_ranks(1)
        self._show_rank()

    def show_empty_words(self, text: str) -> None:
        """Set the text of an empty log."""
        self.view.setPlaceholderText(text)

    def show_line(self, rank: int, sought: str) -> None:
        """Select the last line of a rank's log that contains a text; go to the end of the log if there is none."""
        if rank < self.rank_box.count():
            self.rank_box.setCurrentIndex(rank)
        self.view.setFocus()
        self.view.search(sought)
        if not self.view.find_again(backwards=True):
            self.view.set_follows(True)
        self.view.search(self.search.field.text() if not self.search.isHidden() else "")

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Open the search with Ctrl+F; in the window an action of the menu does so from everywhere."""
        if event.matches(QKeySequence.StandardKey.Find):
            self.search.open_search()
        else:
            super().keyPressEvent(event)

    def follow(self) -> None:
        """Read new text and new ranks."""
        self._look_for_ranks()
        self.view.follow()
        revision, counted_at = self._counted
        if self.search.isHidden() or time.monotonic() - counted_at < RECOUNT_S:
            return
        self._file_search.go_on()
        if revision != self.view.revision or self._told != self._file_search.count:
            self._count()

    def _connect(self) -> None:
        self.rank_box.currentIndexChanged.connect(lambda _: self._show_rank())
        self.follow_box.toggled.connect(self.view.set_follows)
        self.view.follow_changed.connect(self.follow_box.setChecked)
        self.search_button.clicked.connect(self.search.open_search)
        after, before = QKeySequence.StandardKey.FindNext, QKeySequence.StandardKey.FindPrevious
        QShortcut(QKeySequence(after), self).activated.connect(lambda: self._step(backwards=False))
        QShortcut(QKeySequence(before), self).activated.connect(lambda: self._step(backwards=True))
        self.search.changed.connect(self._search)
        self.search.step_asked.connect(self._step)
        self.search.closed.connect(self._end_search)
        self.view.part_changed.connect(self._show_links)
        self._show_earlier.clicked.connect(self.view.show_earlier)
        self._show_later.clicked.connect(self.view.show_later)
        self._open_file.clicked.connect(self._open)
        self._show_links()

    def _show_links(self) -> None:
        """Offer the lines that are missing."""
        self.links.setVisible(self._has_more)
        self._show_earlier.setVisible(self.view.has_earlier)
        self._show_later.setVisible(self.view.has_later)

    def _open(self) -> None:
        """Open the whole log with the program that the desktop has for texts."""
        if self._file is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._file)))

    @property
    def rank(self) -> int:
        """The rank whose log is shown."""
        return max(self.rank_box.currentIndex(), 0)

    @property
    def _file(self) -> Path | None:
        return log_of_rank(self._run_dir, self.rank) if self._run_dir else None

    # -- ranks -------------------------------------------------------------------------------------

    def _show_rank(self) -> None:
        self.view.show_file(self._file)
        self._file_search.start(self._file, "" if self.search.isHidden() else self.search.field.text())
        self._show_links()
        self.rank_shown.emit()
        self.view.follow()

    def _look_for_ranks(self) -> None:
        """Offer each rank that has a log file."""
        count = self._ranks
        while self._run_dir is not None and log_of_rank(self._run_dir, count).exists():
            count += 1
        if count != self._ranks:
            self._offer_ranks(count)

    def _offer_ranks(self, count: int) -> None:
        self._ranks = count
        self.rank_box.blockSignals(True)
        while self.rank_box.count() > count:
            self.rank_box.removeItem(count)
        for rank in range(self.rank_box.count(), count):
            self.rank_box.addItem(tr("rank {rank}", rank=rank))
        if count == 1:
            self.rank_box.setCurrentIndex(0)
        self.rank_box.blockSignals(False)
        self.rank_box.setVisible(count > 1)

    # -- searching -----------------------------------------------------------------------------

    def _search(self, text: str) -> None:
        self.view.search(text)
        self._file_search.start(self._file, text)
        if text:
            self.view.find_again(backwards=True, stay=True)  # start at the end: the latest output matters most
        self._count()

    def _end_search(self) -> None:
        self.view.setFocus()
        bar = self.view.verticalScrollBar()
        at_end = bar.value() >= bar.maximum() and not self.view.has_later
        self.view.set_follows(self.view.follows or at_end)

    def _step(self, backwards: bool) -> None:
        if not self.search.field.text() or self.search.isHidden() or self.view.arriving:
            return
        if not self._has_more or self.view.find_again(backwards=backwards, around=False):
            if not self._has_more:
                self.view.find_again(backwards=backwards)
            self._count()
        elif not self._leave_part(backwards=backwards):
            self.view.find_again(backwards=backwards)
            self._count()

    @property
    def _has_more(self) -> bool:
        """Whether the file has lines that are not shown."""
        return self.view.has_earlier or self.view.has_later

    def _leave_part(self, *, backwards: bool) -> bool:
        """Show the part of the file with the next match, and select it there; return whether there is one."""
        file, (begin, end) = self._file, self.view.part
        if file is None:
            return False
        size = file_size(file)
        if backwards:
            found = self._file_search.before(begin)
            found = self._file_search.before(size) if found is None else found
        else:
            found = self._file_search.after(size if end is None else end)
            found = self._file_search.after(0) if found is None else found
        if found is None:
            return False
        first = lines_before(file, found, 0)  # the line of the match is the last of its part, or the first
        if backwards:
            last = lines_after(file, first, 1)
            part = lines_before(file, last), last
        else:
            part = first, lines_after(file, first)

        def find() -> None:
            self.view.find_first(backwards=backwards)
            self._count()

        self.view.show_part(*part, arrived=find)
        return True

    def _count(self) -> None:
        at, here = self.view.matches()
        self._told = self._file_search.count
        in_file = self._told if self._has_more else None
        self.search.show_matches(at, here, in_file)
        self._counted = (self.view.revision, time.monotonic())
