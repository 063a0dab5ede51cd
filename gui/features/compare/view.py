"""The view of several runs, in the place of the plots: their curves, their table, the readings of their devices."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontDatabase,
    QFontMetrics,
    QMouseEvent,
    QPainter,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QLineEdit,
    QPlainTextEdit,
    QSplitter,
    QStackedWidget,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTextEdit,
    QToolButton,
    QWidget,
)

from core.language import tr, tr_noop
from core.text import one_line
from gui.base.icons import ButtonIcon, paint_mark
from gui.base.painting import Index, draw_elided, paint_row_background, small_font
from gui.base.text_size import scaled
from gui.base.theme import current_theme, look, mark
from gui.features.compare.metric_plot import ComparisonPlot
from gui.features.compare.plots import ComparedPlot, ComparedReadingsPlot
from gui.features.compare.reader import Entry
from gui.features.compare.rows import Cell, ComparisonRows
from gui.widgets.buttons import compact_button, give_menu_below
from gui.widgets.context_menu import Action, add_action, copy_entries, give_menu
from gui.widgets.context_menu import Entry as MenuEntry
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.layouts import hbox, vbox
from gui.widgets.plain_text import PlainLabel, menu_text, named, verbatim
from gui.widgets.table import ROW, Column, RowsTable

SIDE_PX, PADDING_PX, ABOVE_PX, EYE_PX = 9, 8, 3, 13
ROUNDING_PX = 4
"""More than what a text may be wider than the sum of its letters."""
MAX_COLUMN_PX, TITLE_PX = 240, 150
MEASURED = 12
"""Texts of a column that are measured: the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of the table."""

    key: Hashable
    colour: str
    """Of the line in the plot."""
    cells: tuple[Cell, ...]
    """The first of them is the title."""
    is_hidden: bool = False
    """Whether the plots leave it out."""


class ComparisonTable(RowsTable[Line]):
    """Rows in the order of the entries. Space or a double click opens a row; a click on its eye hides its line."""

    eye_clicked = Signal(int)
    """The number of a row."""

    def __init__(self) -> None:
        title, space = tr("Differences between the runs"), (Qt.Key.Key_Space,)
        super().__init__("comparisonTable", title, (), key=lambda line: line.key, open_keys=space)
        self._delegate = _CellDelegate(self)
        self.setItemDelegate(self._delegate)
        self._looks: list[tuple[str, str, bool]] = []
        """Heading, its tooltip, and whether the column has numbers."""

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802 (Qt's name)
        """Hide or show the line of a row whose eye is clicked."""
        if self._is_on_eye(event):
            self.eye_clicked.emit(self.indexAt(event.position().toPoint()).row())
        super().mouseReleaseEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:  # noqa: N802 (Qt's name)
        """Open the row, unless an eye is clicked twice: its line is hidden and shown again."""
        if not self._is_on_eye(event):
            super().mouseDoubleClickEvent(event)

    def _is_on_eye(self, event: QMouseEvent) -> bool:
        at = event.position().toPoint()
        index, eye_px = self.indexAt(at), PADDING_PX + scaled(EYE_PX)
        is_left = event.button() == Qt.MouseButton.LeftButton
        return is_left and index.column() == 0 and at.x() - self.visualRect(index).left() <= eye_px

    def show_comparison(self, entries: Sequence[Entry], table: ComparisonRows, hidden: Collection[Hashable]) -> None:
        """Show this table; `entries` have the titles and colours of its rows. `hidden`: the keys of hidden lines."""
        lines = [
            Line(
                key=entry.runs[0].dir, colour=entry.colour, cells=(_title(entry, table, row), *cells),
                is_hidden=entry.runs[0].dir in hidden,
            )
            for row, (entry, cells) in enumerate(zip(entries, table.rows, strict=True))
        ]
        looks = [(tr("Run"), "", False)] + [
            (heading, tip, all(cells[at].is_number for cells in table.rows))
            for at, (heading, tip) in enumerate(zip(table.headings, table.tips, strict=True))
        ]
        if lines == self.rows and looks == self._looks:
            return
        if looks != self._looks:
            self._looks = looks
            self.show_columns([_column(at, *look) for at, look in enumerate(looks)], lines)
        self.show_rows(lines)
        for column in range(len(looks)):
            least, most = scaled(TITLE_PX) if not column else 0, scaled(MAX_COLUMN_PX)
            self.setColumnWidth(column, max(least, min(self._wanted_px(column), most)))
        self.set_heights()

    def row_px(self) -> int:
        """Return the height of a row, which has two lines if there is a baseline."""
        two = len(self.rows) > 1 or any(each.difference for line in self.rows for each in line.cells)
        height = QFontMetrics(self.font()).height() + 2 * ABOVE_PX
        return height + (QFontMetrics(small_font(self.font())).height() if two else 2 * ABOVE_PX)

    def _wanted_px(self, column: int) -> int:
        """Return the width of a column for its heading and its longest texts. To measure all takes too long."""
        option = QStyleOptionViewItem()
        self.initViewItemOption(option)
        lengths = [max(len(line.cells[column].text), len(line.cells[column].difference)) for line in self.rows]
        longest = sorted(range(len(lengths)), key=lengths.__getitem__)[-MEASURED:]
        widths = [self._delegate.sizeHint(option, self.model().index(row, column)).width() for row in longest]
        return max([self.horizontalHeader().sectionSizeHint(column), *widths])


def _title(entry: Entry, table: ComparisonRows, row: int) -> Cell:
    below = [tr("baseline")] if row == table.baseline and len(table.rows) > 1 else []
    below += [entry.title] if entry.title not in entry.name else []
    return Cell(text=entry.name, difference=" · ".join(below), is_number=False, tip=entry.tip)


def _column(at: int, heading: str, tip: str, is_number: bool) -> Column[Line]:
    return Column(
        heading, title=heading, text=lambda line: line.cells[at].text, tip=lambda line: line.cells[at].tip,
        spoken=lambda line: line.cells[at].spoken, is_number=is_number, width_px=TITLE_PX, about=tip,
    )


class _CellDelegate(QStyledItemDelegate):
    """Paints a value, and below it how far it is from the baseline: with a sign, and in a colour."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802 (Qt's name)
        """Return the room for both lines."""
        bold, small = QFont(option.font), QFontMetrics(small_font(option.font))
        bold.setBold(True)
        each: Cell = index.data(ROW).cells[index.column()]
        mark = 0 if index.column() else scaled(EYE_PX) + SIDE_PX + 2 * PADDING_PX
        width = mark + max(QFontMetrics(bold).horizontalAdvance(each.text), small.horizontalAdvance(each.difference))
        return QSize(width + 2 * PADDING_PX + ROUNDING_PX, option.fontMetrics.height() + small.height())

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one cell."""
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        paint_row_background(painter, option)
        inside = option.rect.adjusted(PADDING_PX, ABOVE_PX, -PADDING_PX, -ABOVE_PX)
        row: Line = index.data(ROW)
        each = row.cells[index.column()]
        height, small = option.fontMetrics.height(), small_font(option.font)
        if not index.column():
            eye, name = scaled(EYE_PX), "shut" if row.is_hidden else "eye"
            place = QRectF(inside.left(), inside.top() + (height - eye) / 2, eye, eye)
            paint_mark(painter, name, place, current_theme().muted)
            inside.adjust(eye + PADDING_PX, 0, 0, 0)
            square = QRectF(inside.left(), inside.top() + (height - SIDE_PX) / 2, SIDE_PX, SIDE_PX)
            painter.fillRect(square, QColor(current_theme().disabled if row.is_hidden else row.colour))
            inside.adjust(SIDE_PX + PADDING_PX, 0, 0, 0)
        font = QFont(option.font)
        font.setBold(each.is_best)
        line = QRect(inside.left(), inside.top(), inside.width(), height)
        usual = current_theme().muted if row.is_hidden else current_theme().text
        tone = current_theme().good if each.is_best else usual
        draw_elided(painter, line, each.text, tone, font=font, right=each.is_number)
        if each.difference:
            tone = {True: current_theme().good, False: current_theme().bad, None: current_theme().muted}[each.better]
            below = QRect(line.left(), line.bottom() + 1, line.width(), QFontMetrics(small).height())
            draw_elided(painter, below, each.difference, tone, font=small, right=each.is_number)
        painter.restore()


MIN_HEIGHT_PX = 160
PAUSE_MS = 400
"""Milliseconds without a key until a target is applied."""
TARGET_CHARACTERS, MAX_BASELINE = 8, 20
TARGET_TIP = tr_noop("Show how long each run trained until the metric reached this value")
WHY_TIP = tr_noop("Show what differs from the baseline: settings, packages, devices, recipe or script")
MAX_LINES = 5000
"""Lines of the text on why runs differ that are shown."""


class DifferencesCard(QFrame):
    """Shows what it is given, and reports what the user asks for."""

    baseline_chosen = Signal(int)
    """The number of a row."""
    line_toggled = Signal(int)
    """The line of the row with this number shall be hidden, or shown again."""
    target_chosen = Signal(object)
    """A number, or None for no target."""
    export_asked = Signal(str)
    """`file`, `markdown` or `csv`."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "differencesCard", tr("Differences"), card=True)
        self.setMinimumHeight(MIN_HEIGHT_PX)
        self.table = ComparisonTable()
        self.table.row_opened.connect(lambda line: self.baseline_chosen.emit(self.table.rows.index(line)))
        self.table.eye_clicked.connect(self.line_toggled)
        give_menu(self.table, "comparisonTableMenu", self._row_entries)
        self.why = _text_view()
        self.notices = ElidedLabel(name="comparisonNotices", role="small")
        """What a reader of the numbers should know."""
        self.notices.hide()
        self.empty = PlainLabel(role="empty", wraps=True)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._stack = QStackedWidget()
        for page in (self.empty, self.table, self.why):
            self._stack.addWidget(page)
        self._lines: Sequence[str] = ()
        look.changed.connect(self._colour_lines)
        column = vbox(self, gap=4, margins=(12, 6, 12, 8))
        self._fill_header(column)
        column.addWidget(self._stack, 1)
        column.addWidget(self.notices)

    def show_table(self, entries: Sequence[Entry], table: ComparisonRows, hidden: Collection[Hashable]) -> None:
        """Show this table; see `ComparisonTable.show_comparison`."""
        self.table.show_comparison(entries, table, hidden)
        self.summary.setText(table.summary)
        self._offer_baselines(entries, table.baseline)
        self._show_page()

    def show_problem(self, sentence: str) -> None:
        """Say why there is no table."""
        self.empty.setText(sentence)
        self.table.show_rows(())
        self.summary.setText("")
        self._show_page()

    def show_why(self, lines: Sequence[str]) -> None:
        """Show why runs differ in place of the table, once it is asked for."""
        self._lines = lines[:MAX_LINES]
        self.why.setPlainText("\n".join(self._lines))
        self._colour_lines()

    def export_entries(self) -> list[Action]:
        """Return the actions of a context menu that copy or export the comparison."""
        # A file is a page, a table or a picture, as its dialog lets choose.
        return [
            (tr("Export comparison…"), lambda: self.export_asked.emit("file")),
            *copy_entries(self.export_asked.emit),
        ]

    def _row_entries(self, place: QPoint) -> list[MenuEntry]:
        row = self.table.rowAt(place.y())
        if row < 0:
            return [*self.export_entries()]
        hide = tr("Show in the plots") if self.table.rows[row].is_hidden else tr("Hide in the plots")
        own: list[MenuEntry] = [
            (tr("Use as baseline"), lambda: self.baseline_chosen.emit(row)),
            (hide, lambda: self.line_toggled.emit(row)),
        ]
        return [*own, None, *self.export_entries()]

    def _fill_header(self, column: QBoxLayout) -> None:
        self.summary = ElidedLabel(role="muted")
        self.target = named(QLineEdit(), "comparisonTarget", tr("Target"), tr(TARGET_TIP), compact=True)
        self.target.setPlaceholderText(tr("target"))
        self.target.setMaximumWidth(TARGET_CHARACTERS * self.fontMetrics().averageCharWidth() + 24)
        self._timer = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self._timer.timeout.connect(self._take_target)
        self.target.textChanged.connect(lambda _: self._timer.start())
        self.target.returnPressed.connect(self._take_target)
        self.baseline = _menu_button("comparisonBaseline")
        self.baseline.setToolTip(tr("The row from which the differences of the others are shown (Space in the table)"))
        why = tr("Why the runs differ")
        self.why_button = compact_button("comparisonWhyButton", tr("Why?"), tr(WHY_TIP), role="link", spoken=why)
        self.why_button.setCheckable(True)
        self.why_button.toggled.connect(lambda _: self._show_page())
        self.export = _menu_button("comparisonExport", tr("Export"))
        for text, act in self.export_entries():
            add_action(self.export.menu(), text, act)
        title = PlainLabel(tr("Differences"), role="title")
        parts = (title, (self.summary, 1), self.target, self.baseline, self.why_button, self.export)
        hbox(column, *parts, gap=6)

    def _offer_baselines(self, entries: Sequence[Entry], chosen: int) -> None:
        title = tr("Baseline: {title}", title=entries[chosen].name)
        self.baseline.setText(f"{menu_text(one_line(title, MAX_BASELINE))} ")
        self.baseline.setAccessibleName(title)
        menu = self.baseline.menu()
        texts = [menu_text(each.name) for each in entries]
        if texts != [action.text() for action in menu.actions()]:
            menu.clear()
            for row, text in enumerate(texts):
                add_action(menu, text, partial(self.baseline_chosen.emit, row)).setCheckable(True)
        for row, action in enumerate(menu.actions()):
            action.setChecked(row == chosen)
        self.baseline.setVisible(len(entries) > 1)
        self.why_button.setVisible(len(entries) > 1)

    def _take_target(self) -> None:
        self._timer.stop()
        text = self.target.text().strip().replace(",", ".")
        try:
            value = float(text) if text else None
        except ValueError:
            value = math.nan
        is_bad = value is not None and not math.isfinite(value)
        mark(self.target, tone="bad" if is_bad else "")
        problem = tr("{text} is not a number. Type a value of the metric.", text=text) if is_bad else ""
        self.target.setAccessibleDescription(problem)
        self.target.setToolTip(verbatim(problem or tr(TARGET_TIP)))
        if not is_bad:
            self.target_chosen.emit(value)

    def _show_page(self) -> None:
        table, shows_why = self.table if self.table.rows else self.empty, self.why_button.isChecked()
        self._stack.setCurrentWidget(self.why if shows_why else table)
        self.why_button.setText(tr("Table") if shows_why else tr("Why?"))

    def _colour_lines(self) -> None:
        """Paint lines that a text got green and those it lost red; the sign tells them apart, too."""
        selections, theme = [], current_theme()
        for number, line in enumerate(self._lines):
            tone = {"+": theme.good, "-": theme.bad, "@": theme.muted}.get(line[:1])
            if tone is None:
                continue
            selection = QTextEdit.ExtraSelection()
            form = QTextCharFormat()
            form.setForeground(QColor(tone))
            cursor = QTextCursor(self.why.document().findBlockByNumber(number))
            cursor.select(QTextCursor.SelectionType.LineUnderCursor)
            selection.format, selection.cursor = form, cursor
            selections.append(selection)
        self.why.setExtraSelections(selections)


def _menu_button(name: str, text: str = "") -> QToolButton:
    """Return a button with a menu below it."""
    button = named(QToolButton(), f"{name}Button")
    give_menu_below(button, text, f"{name}Menu")
    return button


def _text_view() -> QPlainTextEdit:
    view = named(QPlainTextEdit(), "comparisonWhy", tr("Why the runs differ"))
    view.setReadOnly(True)
    view.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
    view.setFrameShape(QFrame.Shape.NoFrame)
    view.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
    return view


BETWEEN_PX = 8
CROSS_PX, GAP_PX = 10, 4
SHARES = (40, 44, 16)
"""Shares of the height: curves, table, devices."""


class ComparisonView(QWidget):
    """Its plots show the same horizontal range, and one cursor."""

    picture_asked = Signal(QWidget)
    """A plot of which a picture shall be saved."""
    values_asked = Signal()
    """The values that the plot of the metric shows shall be copied."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "comparisonView", tr("Comparison"))
        self.plot = ComparisonPlot(name="comparisonPlot", title=tr("Comparison"))
        self.card = DifferencesCard()
        name, percent = "comparedUtilisationPlot", attrgetter("utilisation")
        self.utilisation = ComparedReadingsPlot(name, tr("Utilisation"), "%", percent, top=100.0)
        self.memory = ComparedReadingsPlot("comparedMemoryPlot", tr("Memory"), "GB", attrgetter("memory"))
        self.utilisation.title.setToolTip(tr("The mean of the devices of each run"))
        self.memory.title.setToolTip(tr("The fullest of the devices of each run"))
        self.plots: tuple[ComparedPlot, ...] = (self.plot, self.utilisation, self.memory)
        end = tr("End the comparison and untick the runs (Esc)")
        self.close_button = compact_button("closeComparisonButton", "", end, role="flat")
        ButtonIcon(self.close_button, "cross", side=CROSS_PX, gap=GAP_PX)
        self.plot.header.addWidget(self.close_button)
        self._link()
        self._lay_out()

    def show_entries(
        self, entries: Sequence[Entry], *, axis_name: str, origin: float, metric: str, version: int
    ) -> None:
        """Draw these entries from the next `redraw` on."""
        for plot in self.plots:
            plot.show_entries(entries, axis_name=axis_name, origin=origin, metric=metric, version=version)
        for plot in (self.utilisation, self.memory):  # without readings the table has their room
            plot.setVisible(plot.is_filled())
        self._devices.setHidden(self.utilisation.isHidden() and self.memory.isHidden())

    def clear(self) -> None:
        """Forget all runs: they take much memory."""
        for plot in self.plots:
            plot.clear()
        self.card.show_problem("")

    def show_count(self, count: int) -> None:
        """Show that so many runs are compared."""
        self.close_button.setText(tr("Comparing {count}", count=count))

    def _link(self) -> None:
        for plot in self.plots:
            # Not `setXLink`, which moves the ranges of plots that are side by side.
            plot.canvas.view.sigXRangeChanged.connect(lambda _, span, plot=plot: self._show_span(plot, span))
            plot.follow_changed.connect(lambda follow, plot=plot: self._follow(plot, follow))
            plot.canvas.pointed.connect(lambda x, plot=plot: self._point(plot, x))
            give_menu(plot, "comparedPlotMenu", partial(self._menu_entries, plot))

    def _show_span(self, origin: ComparedPlot, span: tuple[float, float]) -> None:
        for plot in self.plots:
            if plot is not origin and plot.canvas.x_range != tuple(span):
                plot.canvas.view.setXRange(*span, padding=0)

    def _follow(self, origin: ComparedPlot, follow: bool) -> None:
        for plot in self.plots:
            if plot is not origin:
                plot.set_follow(follow)

    def _point(self, origin: ComparedPlot, x: float | None) -> None:
        for plot in self.plots:
            plot.show_crosshair(x if plot is not origin else None)

    def _menu_entries(self, plot: ComparedPlot, _place: QPoint) -> list[MenuEntry]:
        entries: list[MenuEntry] = [(tr("Save picture…"), lambda: self.picture_asked.emit(plot))]
        if plot is self.plot:
            entries.insert(0, (tr("Copy values"), self.values_asked.emit))
        entries += [None, *self.card.export_entries()]
        return entries if plot.shows_all else [*entries, None, (tr("Show all"), lambda: plot.set_follow(True))]

    def _lay_out(self) -> None:
        self._devices = devices = QSplitter(Qt.Orientation.Horizontal)
        parts = QSplitter(Qt.Orientation.Vertical)
        for splitter, widgets in ((devices, (self.utilisation, self.memory)), (parts, (self.plot, self.card, devices))):
            splitter.setChildrenCollapsible(False)
            splitter.setHandleWidth(BETWEEN_PX)
            for widget in widgets:
                splitter.addWidget(widget)
        for place, share in enumerate(SHARES):
            parts.setStretchFactor(place, share)
        parts.setSizes([10 * share for share in SHARES])
        vbox(self, parts)
