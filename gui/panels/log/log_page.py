"""The tab Log: choice of the rank, the text, and the search."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QCheckBox, QComboBox, QPushButton, QVBoxLayout, QWidget

from core.schema.paths import log_of_rank
from gui.widgets.choice_box import ChoiceBox
from gui.widgets.forms.fields import row_of
from gui.widgets.search_bar import SearchBar

from .log_view import LogView

if TYPE_CHECKING:
    from pathlib import Path

    from gui.style.theme import Theme

RECOUNT_S = 0.5
"""Seconds between two counts of the matches while the log grows."""


class LogPage(QWidget):
    """Shows the log of one rank. `controls` is laid out in the heading of the card."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.view = LogView(theme)
        self.search = SearchBar()
        self.rank_box = _rank_box()
        self.follow_box = _follow_box()
        self.search_button = _search_button()
        self.controls = row_of(self.rank_box, self.search_button, self.follow_box, spacing_px=8)
        self._run_dir: Path | None = None
        self._ranks = 1
        self._counted: tuple[int, float] = (-1, 0.0)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(self.search)
        layout.addWidget(self.view, 1)
        self._connect()

    def show_run(self, run_dir: Path | None) -> None:
        """Show the log of another run, rank 0 first; None shows nothing."""
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

    def follow(self) -> None:
        """Read new text and new ranks."""
        self._look_for_ranks()
        self.view.follow()
        revision, counted_at = self._counted
        if not self.search.isHidden() and revision != self.view.revision and time.monotonic() - counted_at > RECOUNT_S:
            self._count()

    def set_theme(self, theme: Theme) -> None:
        """Apply a theme."""
        self.view.set_theme(theme)

    def _connect(self) -> None:
        self.rank_box.currentIndexChanged.connect(lambda _: self._show_rank())
        self.follow_box.toggled.connect(self.view.set_follows)
        self.view.follow_changed.connect(self.follow_box.setChecked)
        self.search_button.clicked.connect(self.search.open_search)
        for key, act in (
            (QKeySequence.StandardKey.Find, self.search.open_search),
            (QKeySequence.StandardKey.FindNext, lambda: self._step(backwards=False)),
            (QKeySequence.StandardKey.FindPrevious, lambda: self._step(backwards=True)),
        ):
            QShortcut(QKeySequence(key), self).activated.connect(act)
        self.search.changed.connect(self._search)
        self.search.step_asked.connect(self._step)
        self.search.closed.connect(self._end_search)

    # -- ranks -------------------------------------------------------------------------------------

    def _show_rank(self) -> None:
        rank = max(self.rank_box.currentIndex(), 0)
        self.view.show_file(log_of_rank(self._run_dir, rank) if self._run_dir else None)
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
            self.rank_box.addItem(f"rank {rank}")
        if count == 1:
            self.rank_box.setCurrentIndex(0)
        self.rank_box.blockSignals(False)
        self.rank_box.setVisible(count > 1)

    # -- searching -----------------------------------------------------------------------------

    def _search(self, text: str) -> None:
        self.view.search(text)
        if text:
            self.view.find_again(backwards=True, stay=True)  # start at the end: the latest output matters most
        self._count()

    def _end_search(self) -> None:
        self.view.setFocus()
        bar = self.view.verticalScrollBar()
        self.view.set_follows(self.view.follows or bar.value() >= bar.maximum())

    def _step(self, backwards: bool) -> None:
        if self.search.field.text() and not self.search.isHidden():
            self.view.find_again(backwards=backwards)
            self._count()

    def _count(self) -> None:
        self.search.show_matches(*self.view.matches())
        self._counted = (self.view.revision, time.monotonic())


def _rank_box() -> QComboBox:
    box = ChoiceBox()
    box.setObjectName("rankBox")
    box.setAccessibleName("Rank")
    box.setToolTip("Process whose output is shown")
    box.setProperty("compact", True)
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
    return box


def _follow_box() -> QCheckBox:
    box = QCheckBox("Follow")
    box.setObjectName("followBox")
    box.setToolTip("Follow the end of the log; scrolling up stops this, scrolling to the end resumes it")
    box.setProperty("compact", True)
    box.setChecked(True)
    return box


def _search_button() -> QPushButton:
    button = QPushButton("Search")
    button.setObjectName("searchButton")
    button.setToolTip("Search in the log (Ctrl+F)")
    button.setProperty("role", "flat")
    button.setProperty("compact", True)
    button.setAutoDefault(False)
    return button
