"""The bell in the header: how many ends the user has missed, and the list that it opens."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QModelIndex, QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QPainter
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QListView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolButton,
    QWidget,
)

from core.language import tr, tr_plural
from gui.base.icons import ButtonIcon, paint_mark
from gui.base.painting import Index, draw_elided, paint_row_background, small_font
from gui.base.text_size import scaled
from gui.base.theme import current_theme
from gui.features.runlist.missed import MissedRow, MissedRuns, missed_row
from gui.widgets.buttons import compact_button
from gui.widgets.layouts import hbox, vbox
from gui.widgets.messages import announce
from gui.widgets.plain_text import PlainLabel, named
from gui.widgets.table import ROW, Column, RowsModel
from gui.window.feature import Feature

BELL_PX, GAP_PX = 16, 4
WIDTH_PX, MAX_ROWS = 400, 9
"""Width of the list, and rows that it shows without being scrolled."""
SIDE_PX, ABOVE_PX = 6, 5
MANY = 99


class MissedButton(QToolButton):
    """Shown while there is something in the list. A click opens the list, which takes the number away."""

    looked_through = Signal()
    """The user has opened the list."""
    all_seen = Signal()
    """The user has marked all as seen."""
    chosen = Signal(str)
    """The directory of the run that the user wants to see."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("missedButton")
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setStyleSheet("QToolButton { padding: 3px 6px; font-weight: bold; }")
        self._count = 0
        self._popup: MissedPopup | None = None
        """Made when there is something to show: at the start of most windows there is nothing."""
        self.clicked.connect(self._open)
        self._bell = ButtonIcon(self, "bell", side=BELL_PX)
        self.show_rows(())

    def show_rows(self, rows: Sequence[MissedRow]) -> None:
        """Show that these ends were missed; without any, hide the button."""
        count = sum(row.is_new for row in rows)
        if rows or self._popup is not None:
            self._list().show_rows(rows)
        if not rows and self._popup is not None:
            self._popup.close()
        has_more = count > self._count
        self._count = count
        self.setText((str(count) if count <= MANY else f"{MANY}+") if count else "")
        words = tr("Runs that you missed, all seen")
        if count:
            words = tr_plural("{count} run that you missed", "{count} runs that you missed", count)
        tip = tr("What became of runs while this window was closed, hidden or not in use")
        named(self, spoken=words, tip=f"{words}\n{tip}")
        self.setAccessibleDescription(tip)
        self.setVisible(bool(rows))
        self._bell.show("bell", "accent" if count else "muted", gap=GAP_PX if count else 0)
        if has_more:
            announce(self, words)

    def _list(self) -> MissedPopup:
        if self._popup is None:
            self._popup = MissedPopup(self)
            self._popup.seen_button.clicked.connect(self._mark_all)
            self._popup.list.clicked.connect(self._choose)
            self._popup.list.activated.connect(self._choose)
        return self._popup

    def _open(self) -> None:
        self._list().open_below(self)
        self.looked_through.emit()

    def _mark_all(self) -> None:
        self._list().close()
        self.all_seen.emit()

    def _choose(self, index: QModelIndex) -> None:
        self._list().close()
        self.chosen.emit(str(index.data(ROW).dir))


class MissedPopup(QFrame):
    """The list, newest first. Esc and a click beside it close it; Enter and a click choose a run."""

    def __init__(self, parent: MissedButton) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        named(self, "missedPopup", card=True)
        heading = PlainLabel(tr("While you were away"), role="title")
        heading.setIndent(SIDE_PX)
        self.seen_button = compact_button("missedSeenButton", tr("Mark all as seen"), role="flat")
        self.list = QListView()
        self._model = RowsModel(lambda row: row.dir, self.list)
        text, spoken = (lambda row: f"{row.name}\n{row.words}"), (lambda row: row.spoken)
        self._model.show_columns([Column("run", text=text, tip=spoken, spoken=spoken)])
        self.list.setModel(self._model)
        named(self.list, "missedList", tr("Runs that you missed"))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.list.setUniformItemSizes(True)
        self.list.setMouseTracking(True)
        self._delegate = MissedDelegate(self.list)
        self.list.setItemDelegate(self._delegate)
        layout = vbox(self, gap=4, margins=(6, 6, 6, 6))
        hbox(layout, (heading, 1), self.seen_button, gap=4)
        layout.addWidget(self.list)

    def show_rows(self, rows: Sequence[MissedRow]) -> None:
        """Show these runs; the current one stays the current one."""
        current = self.list.currentIndex()
        known = current.data(ROW).dir if current.isValid() else None
        self._model.show_rows(rows)
        self.list.setCurrentIndex(self._model.index(self._model.number_of(known), 0))
        if self.isVisible():
            self._fit()

    def open_below(self, button: MissedButton) -> None:
        """Open with its right edge below that of the button, inside the screen."""
        self._fit()
        self.list.setCurrentIndex(self._model.index(0, 0))
        corner = button.mapToGlobal(QPoint(button.width() - self.width(), button.height() + 2))
        screen = button.screen().availableGeometry()
        self.move(max(corner.x(), screen.left()), corner.y())
        self.show()
        self.list.setFocus(Qt.FocusReason.PopupFocusReason)

    def _fit(self) -> None:
        """Be as high as the rows need."""
        rows = min(len(self._model.rows), MAX_ROWS)
        self.list.setFixedHeight(rows * max(self.list.sizeHintForRow(0), 1) + 2 * self.list.frameWidth())
        self.setFixedWidth(scaled(WIDTH_PX))
        self.adjustSize()


class MissedDelegate(QStyledItemDelegate):
    """Paints the sign, the name and when it ended, and below them what happened; the tooltip has the whole text."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: ARG002, N802 (Qt's name)
        """Return the size of two lines."""
        return QSize(120, option.fontMetrics.height() + QFontMetrics(small_font(option.font)).height() + 2 * ABOVE_PX)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one run."""
        row: MissedRow = index.data(ROW)
        rect, height, small = QRect(option.rect), option.fontMetrics.height(), small_font(option.font)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        paint_row_background(painter, option)
        side = round(0.8 * height)
        square = QRectF(rect.left() + SIDE_PX, rect.top() + ABOVE_PX + (height - side) / 2, side, side)
        paint_mark(painter, row.mark, square, getattr(current_theme(), row.tone))
        left, right = rect.left() + round(1.7 * height), rect.right() - SIDE_PX
        line = QRect(left, rect.top() + ABOVE_PX, right - left, height)
        draw_elided(painter, line, row.when, current_theme().muted, font=small, right=True)
        line.setRight(right - QFontMetrics(small).horizontalAdvance(f"{row.when}  "))
        draw_elided(painter, line, row.name, current_theme().text)
        below = QRect(left, line.bottom() + 1, right - left, QFontMetrics(small).height())
        draw_elided(painter, below, row.words, current_theme().muted, font=small)
        painter.restore()


class MissedController(Feature):
    """It keeps nothing: the service has what was missed."""

    def set_up(self) -> None:
        self._missed = self.services.adopt(MissedRuns(self._run_list))
        button = self.panels.header.missed
        self._missed.changed.connect(self._show)
        self._session.attached.connect(lambda: self._tell(self._missed.see))
        button.looked_through.connect(self._missed.look_through)
        button.all_seen.connect(self._missed.see_all)
        button.chosen.connect(self.panels.runs.choose)
        self._session.end_asked.connect(lambda: self._tell(self._missed.expect))
        self._show()

    def prepare(self) -> None:
        """Note whether the user has the window before them, before the list of runs says what has ended."""
        window = self.panels.window
        is_shown = window.isVisible() and not window.isMinimized()
        self._missed.attend(attended=is_shown and _belongs_to(QApplication.activeWindow(), window))

    def save(self) -> None:
        """Write what was missed and seen."""
        self._missed.save()

    end = save

    def _show(self) -> None:
        rows = [missed_row(run, time.time(), is_new=is_new) for run, is_new in self._missed.runs]
        self.panels.header.missed.show_rows(rows)

    def _tell(self, what: Callable[[Path], None]) -> None:
        """Tell the service something about the shown run."""
        if self._session.run is not None:
            what(self._session.run.dir)


def _belongs_to(active: QWidget | None, window: QWidget) -> bool:
    """Return whether the active window is this one, or a dialog of it."""
    while active is not None and active is not window:
        active = active.parentWidget()
    return active is window
