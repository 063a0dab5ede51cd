"""The list of runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QItemSelectionModel, QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QDragMoveEvent,
    QDropEvent,
    QFont,
    QFontMetrics,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPen,
)
from PySide6.QtWidgets import (
    QListView,
    QListWidget,
    QListWidgetItem,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
)

from core.language import tr, tr_noop
from gui.base.icons import paint_mark
from gui.base.painting import Index, draw_elided, paint_empty, paint_row_background, small_font
from gui.base.theme import current_theme
from gui.features.runlist.menus import RunMenu, SeveralMenu
from gui.runs.actions import RunActions
from gui.runs.groups import FOLDED, UNFOLDED
from gui.runs.rows import RunRow
from gui.widgets.plain_text import named, verbatim
from gui.widgets.table import ROW

ABOVE_PX, BAR_PX, GAP_PX = 5, 2, 8
"""Space above and below the lines of a run, height of a bar, space between two texts of a line."""
NUMBER = re.compile(r"\D+ (\d*\.\d+\S*)")
"""`val. loss 0.437`, of which the number is left where there is no room."""
RESULT_SHARE = 0.7
"""Most of a line that a result takes from what makes the run different."""


def heading_px(font: QFont) -> int:
    """Return the height of the heading of a day."""
    return round(1.9 * QFontMetrics(small_font(font)).height())


class RunDelegate(QStyledItemDelegate):
    """Paints two or three lines per run, cut with an ellipsis; the tooltip has the whole text."""

    def __init__(self, parent: QListView, *, has_boxes: bool = True) -> None:
        super().__init__(parent)
        self._has_boxes = has_boxes
        self.colours: dict[str, str] = {}
        """`#rrggbb` of ticked runs by directory; the others have the accent."""
        self.shows_boxes = False
        """Whether every run has its tick box; else the one under the mouse alone. A scaling table has none."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802 (Qt's name)
        """Return the size of the lines, and of the heading above them."""
        row: RunRow = index.data(ROW)
        small = QFontMetrics(small_font(option.font)).height() * (2 if row.below else 1)
        above = heading_px(option.font) if row.day else 0
        bar = 0 if row.fraction is None else 2 * BAR_PX
        return QSize(120, above + 2 * ABOVE_PX + option.fontMetrics.height() + small + bar)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one run."""
        rect, theme = QRect(option.rect), current_theme()
        row: RunRow = index.data(ROW)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if row.day:
            heading = QRect(rect.topLeft(), QSize(rect.width(), heading_px(option.font)))
            self._paint_heading(painter, heading, row, option.font)
            rect.setTop(heading.bottom() + 1)
        body = QStyleOptionViewItem(option)
        body.rect = rect
        paint_row_background(painter, body)
        height, small = option.fontMetrics.height(), small_font(option.font)
        side = round(0.8 * height)
        square = QRectF(rect.left() + 6, rect.top() + ABOVE_PX + (height - side) / 2, side, side)
        paint_mark(painter, row.mark, square, getattr(theme, row.tone))
        left, right = rect.left() + round(1.7 * height), rect.right() - 3
        state: QStyle.StateFlag = option.state
        has_box = self._has_boxes and bool(row.runs)
        if has_box and (self.shows_boxes or state & QStyle.StateFlag.State_MouseOver):
            box = QRectF(rect.right() - side - 7, square.top(), side, side)
            right = round(box.left()) - 4
            self._paint_box(painter, box, index, ticked=bool(state & QStyle.StateFlag.State_Selected))
        line = QRect(left, rect.top() + ABOVE_PX, right - left, height)
        draw_elided(painter, line, row.title, theme.text)
        below = QRect(left, line.bottom() + 1, rect.right() - 7 - left, QFontMetrics(small).height())
        tone = getattr(theme, row.tone) if row.tone == "bad" or row.mark == "alert" else theme.text
        self._paint_pair(painter, below, (row.words, row.result), small, tone)
        below.translate(0, below.height())
        if row.fraction is not None:
            bar = QRect(left, below.top() + BAR_PX // 2, below.width(), BAR_PX)
            painter.fillRect(bar, QColor(theme.field))
            bar.setWidth(round(row.fraction * bar.width()))
            painter.fillRect(bar, QColor(theme.accent))
            below.translate(0, 2 * BAR_PX)
        self._paint_pair(painter, below, (row.below, row.left), small)
        painter.restore()

    def _paint_pair(self, painter: QPainter, line: QRect, texts: tuple[str, str], font: QFont, tone: str = "") -> None:
        """Paint a text, and at its right another one, which has more of the room.

        Phrases of that one stay whole; with a tone, those of the first as well.
        """
        (text, result), metrics = texts, QFontMetrics(font)
        first, number = text.partition(" · ")[0], NUMBER.fullmatch(result.partition(" · ")[0])
        if number and metrics.horizontalAdvance(first + number[0]) + GAP_PX > line.width():
            result = number[1]  # in a narrow list: without what the text begins with, runs are not told apart
        while " · " in result and metrics.horizontalAdvance(text + result) + GAP_PX > line.width():
            result = result.rpartition(" · ")[0]
        most = max(round(RESULT_SHARE * line.width()), line.width() - metrics.horizontalAdvance(text) - GAP_PX)
        right = QRect(line)
        right.setLeft(line.right() + 1 - min(metrics.horizontalAdvance(result) + 1, most))
        draw_elided(painter, right, result, tone or current_theme().muted, font=font, right=True)
        room = line if not result else line.adjusted(0, 0, -right.width() - GAP_PX, 0)
        while tone and " · " in text and metrics.horizontalAdvance(text) > room.width():
            text = text.rpartition(" · ")[0]
        draw_elided(painter, room, text, current_theme().muted, font=font)

    def _paint_heading(self, painter: QPainter, line: QRect, row: RunRow, font: QFont) -> None:
        heading = small_font(font)
        heading.setBold(True)
        heading.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, 1)
        inside, small, title = line.adjusted(6, 0, -7, 0), small_font(font), row.day.upper()
        note = tr("starts about") if row.is_queued and row.result else ""
        draw_elided(painter, inside, note, current_theme().muted, font=small, right=True)
        draw_elided(painter, inside, title, current_theme().muted, font=heading)
        inside.setLeft(inside.left() + QFontMetrics(heading).horizontalAdvance(title) + GAP_PX)
        draw_elided(painter, inside, str(row.of_day), current_theme().muted, font=small)

    def _paint_box(self, painter: QPainter, box: QRectF, index: Index, *, ticked: bool) -> None:
        colour = self.colours.get(_dir(index), current_theme().accent)
        painter.setPen(QPen(QColor(colour if ticked else current_theme().muted), 1))
        painter.setBrush(QColor(colour if ticked else current_theme().field))
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 3, 3)
        if ticked:
            inside = box.adjusted(0.18 * box.width(), 0.18 * box.width(), -0.18 * box.width(), -0.18 * box.width())
            paint_mark(painter, "tick", inside, current_theme().panel)


STEPS = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
"""Keys that move a queued run, with Alt."""
SIGNS = {Qt.Key.Key_Right: FOLDED, Qt.Key.Key_Left: UNFOLDED}
"""Keys that turn the rows of several runs whose titles begin with a sign."""
ROWS = 200
"""Rows that are made at once."""
BOX_REACH_PX = 30
"""Width at the right of a row in which a press ticks it."""
HELD = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
"""Keys with which a click chooses more runs instead of showing one."""
EMPTY = tr_noop("No runs yet.\n\nRuns stay in this list after the window is closed.")


class RunList(QListWidget):
    """One item per run: its text has two lines, its UserRole the directory."""

    chosen = Signal(str)
    """The directory of the chosen run."""
    rows_changed = Signal()
    """Other runs are listed."""
    turned = Signal(str)
    """The row of several runs should be unfolded, or folded: its `RunRow.dir`."""
    moved = Signal(str, list)
    """A queued run was dragged: its directory, and those of the run or runs before which it was dropped, if any."""
    step_asked = Signal(str, int)
    """A queued run should be moved up (-1) or down (1)."""
    choice_changed = Signal()
    """Other runs are ticked."""
    more_wanted = Signal()
    """The list was scrolled to its end, and `wanted` has grown: more rows are shown if there are any."""

    def __init__(self, actions: RunActions) -> None:
        super().__init__()
        named(self, "runList", tr("Runs"))
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QListWidget.ScrollMode.ScrollPerPixel)
        self.setSelectionMode(QListWidget.SelectionMode.ExtendedSelection)
        self.setMouseTracking(True)
        self.setDragDropMode(QListWidget.DragDropMode.DragDrop)
        self.setDefaultDropAction(Qt.DropAction.MoveAction)
        self._pressed_beside = False
        """Whether the last press was to choose more runs, or on no run, and not to show one."""
        self._making = False
        """Whether items are made, so that the selection is not the user's."""
        self.keeps_ticks = False
        """Whether the ticks stay as they are whatever run is shown."""
        self._marked: Path | None = None
        """The run that was shown when a row was last selected for it."""
        self._reported: list[str] = []
        """The ticked runs when that was last reported."""
        self._rows: list[RunRow] = []
        self.wanted = ROWS
        """Number of rows to show: thousands of items that nobody looks at would take long to make."""
        self._empty_words = ""
        self.beyond: Sequence[str] = ()
        """Ticked runs below the last row."""
        self._delegate = RunDelegate(self)
        self.setItemDelegate(self._delegate)
        self._actions = actions
        self.run_menu = named(RunMenu(self, actions), "runListMenu")
        self.several_menu = SeveralMenu(self, actions)
        self.itemSelectionChanged.connect(self._report_choice)
        self.itemClicked.connect(self._on_item_chosen)
        self.itemActivated.connect(self._on_item_chosen)
        self.verticalScrollBar().valueChanged.connect(self._on_scrolled)

    def show_rows(self, rows: Sequence[RunRow]) -> None:
        """Show these runs."""
        if rows == self._rows:
            return
        known = [row.dir for row in self._rows]
        is_same = [row.dir for row in rows[: len(known)]] == known
        if known and is_same and rows[len(known) - 1].title == self._rows[-1].title:  # else its runs are shown below it
            for _ in rows[len(known) :]:  # their end was reached
                self.addItem(QListWidgetItem())
        elif [row.dir for row in rows] != known:
            self._make_items(rows)
        for number, row in enumerate(rows):
            if number >= len(self._rows) or row != self._rows[number]:
                _fill(self.item(number), row)
        known_before, self._rows = {row.dir for row in self._rows}, list(rows)
        self._report_choice()
        if known_before != {row.dir for row in rows}:
            self.rows_changed.emit()

    def show_empty_words(self, sentence: str) -> None:
        """Say why no run is listed although there are some; the empty string if there are none."""
        self._empty_words = sentence
        self.viewport().update()

    @property
    def ticked(self) -> list[str]:
        """The directories of the ticked runs, from top to bottom; the row of a scaling table is no run."""
        rows = sorted(index.row() for index in self.selectionModel().selectedRows())
        return [*dict.fromkeys(each for row in rows for each in self.item(row).data(ROW).runs), *self.beyond]

    @property
    def listed(self) -> set[str]:
        """The directories of all runs in the list, also of those that are folded."""
        return {each for row in self._rows for each in (str(row.dir), *row.runs)}

    @property
    def has_several(self) -> bool:
        """Whether several runs are ticked."""
        return len(self._reported) > 1

    def tick(self, run_dirs: Sequence[str], beyond: Sequence[str] = ()) -> None:
        """Tick these runs alone; those that are not listed are left out, unless they are `beyond`."""
        wanted, self.beyond, self._making = set(run_dirs), beyond, True
        for row in range(self.count()):
            self.item(row).setSelected(self._rows[row].is_ticked(wanted))
        self._making = False
        self._report_choice()

    def show_colours(self, colours: Mapping[str, str]) -> None:
        """Paint the tick boxes of these runs in the colours of their curves, by directory; the others in the accent."""
        self._delegate.colours = dict(colours)
        self.viewport().update()

    def mark_chosen(self, run_dir: Path | None) -> None:
        """Select the shown run alone, unless several are ticked, or ticks are to stay as they are.

        A row that was chosen since, with the keys or by dragging it, stays chosen until another run is shown.
        """
        if self.has_several or self.keeps_ticks or (run_dir == self._marked and (self.selectedItems() or self.beyond)):
            return
        self._marked = run_dir
        row = next((at for at, row in enumerate(self._rows) if row.dir == run_dir), -1)
        self.setCurrentRow(row, QItemSelectionModel.SelectionFlag.ClearAndSelect)  # else Qt adds it to the others

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802 (Qt's name)
        """Tick or untick a run at its box; ignore a heading; else select as lists do."""
        at = event.position().toPoint()
        item = self.itemAt(at)
        body = self._body(item) if item is not None else QRect()
        is_left = event.button() is Qt.MouseButton.LeftButton
        has_box = item is not None and bool(item.data(ROW).runs)
        on_box = is_left and has_box and at.x() > body.right() - BOX_REACH_PX and not event.modifiers()
        self._pressed_beside = on_box or not body.contains(at) or bool(event.modifiers() & HELD)
        if item is not None and not body.contains(at):
            return
        if item is not None and on_box:
            self._toggle(item)
            return
        if event.button() is Qt.MouseButton.RightButton and item is not None and item.isSelected():
            return  # the menu is about all that are ticked
        super().mousePressEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Tick or untick the current run with Space; Enter compares several; Alt and an arrow moves a queued run."""
        self._pressed_beside = False
        item, step = self.currentItem(), STEPS.get(Qt.Key(event.key()), 0)
        if step and event.modifiers() == Qt.KeyboardModifier.AltModifier and item is not None:
            self.step_asked.emit(_dir(item), step)
        elif event.key() == Qt.Key.Key_Space and item is not None and not event.modifiers() & HELD:
            if item.data(ROW).runs:
                self._toggle(item)
        elif event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter} and self.has_several:
            self._actions.do("compare", self.ticked)
        elif event.key() == Qt.Key.Key_Escape and self.has_several:
            self.tick(())
        elif item is not None and item.data(ROW).title.startswith(SIGNS.get(Qt.Key(event.key()), "\n")):
            self.turned.emit(_dir(item))
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802 (Qt's name)
        """Open the menu of the run under the mouse, or, from the keyboard, of the selected run; or that of several."""
        by_mouse = event.reason() == QContextMenuEvent.Reason.Mouse
        item = self.itemAt(event.pos()) if by_mouse else self.currentItem()
        if item is not None:
            below = self.viewport().mapToGlobal(self.visualItemRect(item).bottomLeft())
            runs = item.data(ROW).runs
            self.open_menu(_dir(item), event.globalPos() if by_mouse else below, runs if len(runs) > 1 else ())

    def open_menu(self, run_dir: str, place: QPoint, several: Sequence[str] = ()) -> None:
        """Open the menu of a run at a place on the screen, or that of all ticked runs if it is one of several.

        `several`: the runs for which a row stands.
        """
        if self.has_several and ({run_dir, *several} & {*self._reported}):
            several = self.ticked
        if several:
            self.several_menu.popup_for(several, place)
            return
        self.run_menu.show_run(run_dir)
        self.run_menu.popup(place)

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:  # noqa: N802 (Qt's name)
        """Let a queued run be dropped among the others; files are for the window."""
        super().dragMoveEvent(event)
        if event.source() is not self:
            event.ignore()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802 (Qt's name)
        """Report where a queued run was dropped. The rows follow when the queue has changed."""
        if event.source() is not self:
            event.ignore()
            return
        self.drop_chosen(event.position().toPoint())
        event.setDropAction(Qt.DropAction.IgnoreAction)
        event.accept()

    def drop_chosen(self, position: QPoint) -> None:
        """Report that the chosen run was dropped here: above the run at this place, or below it in its lower half."""
        chosen, row = self.currentRow(), self.indexAt(position).row()
        if chosen < 0:
            return
        if row < 0:
            row = self.count()
        elif position.y() > self._body(self.item(row)).center().y():
            row += 1
        row = max(row, next((at for at, each in enumerate(self._rows) if each.is_queued), 0))  # not among those above
        self.moved.emit(_dir(self.item(chosen)), [*self._rows[row].runs] if row < self.count() else [])

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return a narrow size: the plots need the room."""
        return QSize(210, 200)

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Paint a text in an empty list."""
        handled = super().viewportEvent(event)
        if event.type() == QEvent.Type.Paint and not self.count():
            paint_empty(self, self._empty_words or tr(EMPTY), 8, 4)
        return handled

    def _body(self, item: QListWidgetItem) -> QRect:
        """Return the place of a run without the heading above it."""
        above = heading_px(self.font()) if item.data(ROW).day else 0
        return self.visualItemRect(item).adjusted(0, above, 0, 0)

    def _toggle(self, item: QListWidgetItem) -> None:
        """Tick or untick a run. It becomes the current one, from which Shift counts."""
        self.setCurrentItem(item, QItemSelectionModel.SelectionFlag.Toggle)

    def _report_choice(self) -> None:
        if not self._making and (ticked := self.ticked) != self._reported:
            self._reported = ticked
            self._delegate.shows_boxes = self.has_several
            self.viewport().update()
            self.choice_changed.emit()

    def _on_item_chosen(self, item: QListWidgetItem) -> None:
        if not self._pressed_beside:
            (self.turned if len(item.data(ROW).runs) > 1 else self.chosen).emit(_dir(item))

    def choose(self, run_dir: str) -> None:
        """Choose a run, as a click on it does, also if it is not listed."""
        self.chosen.emit(run_dir)

    def _on_scrolled(self, value: int) -> None:
        """Want more rows when the last ones come into sight."""
        if self.count() >= self.wanted and value + 2 * self.viewport().height() > self.verticalScrollBar().maximum():
            self.wanted += ROWS
            self.more_wanted.emit()

    def _make_items(self, rows: Sequence[RunRow]) -> None:
        """Create items for these runs; keep the selection and the scroll position."""
        current = self.currentItem()
        chosen = _dir(current) if current else None
        scrolled, ticked = self.verticalScrollBar().value(), set(self.ticked)
        self._making = True  # what is ticked then is reported once the rows are known
        try:
            self.clear()
            for row in rows:
                item = QListWidgetItem()
                self.addItem(item)
                _fill(item, row)
                if str(row.dir) == chosen:
                    self.setCurrentItem(item, QItemSelectionModel.SelectionFlag.NoUpdate)
                item.setSelected(row.is_ticked(ticked))
        finally:
            self._making = False
        self.verticalScrollBar().setValue(scrolled)


def _dir(item: QListWidgetItem | Index) -> str:
    """Return the directory of the run, or the path of the scaling table, that an item shows."""
    return str(item.data(Qt.ItemDataRole.UserRole))


def _fill(item: QListWidgetItem, row: RunRow) -> None:
    item.setData(ROW, row)
    item.setText(f"{row.title}\n{row.outcome}")
    more = filter(None, (row.words, row.result, row.left))
    item.setData(Qt.ItemDataRole.AccessibleDescriptionRole, tr(", ").join(more))
    item.setData(Qt.ItemDataRole.UserRole, str(row.dir))
    item.setToolTip(verbatim(row.tip))
    flags = Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEnabled
    item.setFlags(flags | Qt.ItemFlag.ItemIsDragEnabled if row.is_queued and len(row.runs) == 1 else flags)
