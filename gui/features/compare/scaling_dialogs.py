"""The dialogs of scaling tables: what to measure, and the result with its plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QProgressBar, QSizePolicy, QWidget

from core.language import tr, tr_noop, tr_plural
from core.results.scaling_record import FIXED, MAX_REPEATS, PER_DEVICE
from gui.base.painting import draw_elided, small_font
from gui.base.text_size import scaled
from gui.base.theme import current_theme, mark
from gui.widgets.context_menu import Entry, copy_entries, give_menu
from gui.widgets.dialogs import InfoDialog, Question
from gui.widgets.fields import choice, form, label, line, whole_number
from gui.widgets.plain_text import PlainLabel, named
from gui.widgets.table import RowsTable, text_columns

MIN_PX = QSize(320, 190)
MARGIN_PX = 12
MAX_BAR_PX = 64
WHISKER_PX = 5


class ScalingBar(NamedTuple):
    """One number of devices."""

    devices: int
    speed_up: float | None = None
    """Over one device; None if it is not known."""
    deviation: float | None = None
    """Over the repeats; None for one training."""


class ScalingPlot(QFrame):
    """A card with a bar for each number of devices."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "scalingPlot", tr("Speed-up over one device"), card=True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.bars: tuple[ScalingBar, ...] = ()

    def show_bars(self, bars: Sequence[ScalingBar]) -> None:
        """Show these numbers of devices, the smallest first."""
        self.bars = tuple(bars)
        self.setAccessibleDescription(" ".join(_sentence(each) for each in self.bars))
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return a size in which eight bars are legible."""
        return self.minimumSizeHint()

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the least size with legible labels."""
        return QSize(scaled(MIN_PX.width()), scaled(MIN_PX.height()))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 (Qt's name)
        """Paint the title, the bars and their labels."""
        super().paintEvent(event)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        small, margin = small_font(self.font()), scaled(MARGIN_PX)
        row = painter.fontMetrics().height()
        inside = self.rect().adjusted(margin, margin // 2, -margin, -margin // 2)
        heading = QRect(inside.left(), inside.top(), inside.width(), row)
        draw_elided(painter, heading, tr("Speed-up over one device"), current_theme().text)
        draw_elided(painter, heading, tr("dashed: without any loss"), current_theme().muted, font=small, right=True)
        area = QRectF(inside.adjusted(0, 2 * row + 4, 0, -2 * row))
        if self.bars:
            self._paint_bars(painter, area, row)
        painter.end()

    def _paint_bars(self, painter: QPainter, area: QRectF, row: int) -> None:
        theme, step = current_theme(), area.width() / len(self.bars)
        highest = max(max(each.devices, (each.speed_up or 0) + (each.deviation or 0)) for each in self.bars)
        unit, width = area.height() / highest, min(scaled(MAX_BAR_PX), 0.6 * step)
        small = small_font(self.font())
        for at, bar in enumerate(self.bars):
            middle = area.left() + (at + 0.5) * step
            ideal = QRectF(middle - width / 2, area.bottom() - bar.devices * unit, width, bar.devices * unit)
            painter.setPen(QPen(QColor(theme.muted), 1, Qt.PenStyle.DashLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(ideal)
            top = ideal.top()
            if bar.speed_up is not None:
                drawn = QRectF(ideal.left(), area.bottom() - bar.speed_up * unit, width, bar.speed_up * unit)
                painter.fillRect(drawn, QColor(theme.accent))
                top = min(top, drawn.top())
                self._paint_whisker(painter, bar, middle, area.bottom(), unit)
            text = "–" if bar.speed_up is None else f"{bar.speed_up:.2f}"
            column = round(middle - step / 2)
            draw_centred(painter, QRect(column, round(top) - row - 2, round(step), row), text, theme.text)
            label = tr_plural("{count} device", "{count} devices", bar.devices)
            below = QRect(column, round(area.bottom()) + 2, round(step), row)
            painter.setFont(small)
            draw_centred(painter, below, label, theme.muted)
            if bar.speed_up is not None:
                share = f"{100 * bar.speed_up / bar.devices:.0f} %"
                draw_centred(painter, below.translated(0, row - 2), share, theme.muted)
            painter.setFont(self.font())
        painter.setPen(QPen(QColor(theme.panel_border), 1))
        painter.drawLine(area.bottomLeft(), area.bottomRight())

    def _paint_whisker(self, painter: QPainter, bar: ScalingBar, middle: float, bottom: float, unit: float) -> None:
        """Paint the standard deviation over the repeats."""
        if bar.deviation is None or bar.speed_up is None:
            return
        painter.setPen(QPen(QColor(current_theme().text), 1))
        low, high = (bottom - (bar.speed_up + sign * bar.deviation) * unit for sign in (-1, 1))
        painter.drawLine(QPointF(middle, low), QPointF(middle, high))
        for y in (low, high):
            painter.drawLine(QPointF(middle - WHISKER_PX, y), QPointF(middle + WHISKER_PX, y))


def draw_centred(painter: QPainter, line: QRect, text: str, colour: str) -> None:
    """Draw one line of text in the middle."""
    painter.setPen(QColor(colour))
    painter.drawText(line, Qt.AlignmentFlag.AlignCenter, text)


def _sentence(bar: ScalingBar) -> str:
    if bar.speed_up is None:
        return tr_plural("{count} device: not known.", "{count} devices: not known.", bar.devices)
    return tr_plural("{count} device: {gain:.2f}.", "{count} devices: {gain:.2f}.", bar.devices, gain=bar.speed_up)


WIDTH_PX = 460
ABOUT = tr_noop(
    "The chosen recipe is trained on 1, 2, 4, … of the ticked devices, one training after the other. "
    "The measuring goes on when the window is closed."
)
ABOUT_BATCHES = tr_noop(
    "With a fixed global batch, n devices compute an n-th of it each; with a fixed batch per device it grows"
)
Asked = tuple[str, str, int]
"""Name, one of `core.results.scaling_record.BATCHES`, repeats."""


class ScalingDialog(Question):
    """Asks what to measure; `asked` reports it."""

    asked = Signal(str, str, int)
    """Name, batch, repeats."""

    def __init__(self, parent: QWidget, *, name: str, judge: Callable[[Asked], tuple[str, str]]) -> None:
        """`judge`: returns why this cannot be measured (or the empty string), and what would be trained."""
        super().__init__(parent, "scalingDialog", tr("Measure"))
        self._judge = judge
        self._make_fields(name)
        self.accepted.connect(lambda: self.asked.emit(*self.chosen))
        words = _wrapped(tr(ABOUT))
        self.preview, self.problem = named(_wrapped(), "scalingPreview"), named(_wrapped(), "scalingProblem")
        mark(self.problem, tone="bad")
        fields = QWidget()
        rows = form(fields)
        heading = PlainLabel(tr("Measure a scaling table"), role="heading")
        self.lay_out(heading, words, fields, self.preview, self.problem)
        for text, widget in ((tr("Name"), self.name), (tr("Batch"), self.batch), (tr("Repeats"), self.repeats)):
            rows.addRow(label(text, widget), widget)
        self._check()

    def _make_fields(self, name: str) -> None:
        self.name = line("scalingName", tr("Name"), tr("The names of its runs begin with it"))
        self.name.setText(name)
        batches = ((tr("Fixed global batch"), FIXED), (tr("Fixed batch per device"), PER_DEVICE))
        self.batch = choice("scalingBatch", tr("Batch"), tr(ABOUT_BATCHES), batches)
        spread = tr("Train so many times on each number of devices, for the spread")
        self.repeats = whole_number("scalingRepeats", tr("Repeats"), spread, minimum=1, value=1)
        self.repeats.setMaximum(MAX_REPEATS)
        self.name.textChanged.connect(lambda _: self._check())
        self.batch.currentIndexChanged.connect(lambda _: self._check())
        self.repeats.valueChanged.connect(lambda _: self._check())

    @property
    def chosen(self) -> Asked:
        """What is asked for now."""
        return self.name.text(), str(self.batch.currentData()), self.repeats.value()

    def _check(self) -> None:
        problem, preview = self._judge(self.chosen)
        self.yes.setEnabled(not problem)
        for part, text in ((self.problem, problem), (self.preview, preview)):
            part.setText(text)
            part.setVisible(bool(text))


def _wrapped(text: str = "") -> PlainLabel:
    made = PlainLabel(text, wraps=True)
    made.setMinimumWidth(scaled(WIDTH_PX))
    return made


SIZE = QSize(900, 540)
NUMBERS = (0, 2, 3, 4, 5, 6)
"""Columns of `core.results.scaling_table.text_table` that are numbers."""


class ScalingTableDialog(InfoDialog):
    """Shows one table. It does not block the window, and is deleted when it is closed."""

    export_asked = Signal()
    continue_asked = Signal()
    stop_asked = Signal()
    compare_asked = Signal()
    """The curves of the runs shall be compared in the window."""
    copy_asked = Signal(str)
    """`csv` or `markdown`: the table shall be copied as such."""
    picture_asked = Signal()
    """A picture of the plot shall be saved."""
    row_chosen = Signal(int)
    """A row was double-clicked, or Enter was pressed on it: its runs shall be shown."""

    def __init__(self, parent: QWidget, *, name: str) -> None:
        self._shown: list[list[str]] = []  # first, as Qt tells about the font at once
        super().__init__(parent, name="scalingTableDialog", heading=tr("Scaling of {name}", name=name))
        self.sentence = PlainLabel(name="scalingState", wraps=True)
        self.progress = named(QProgressBar(), spoken=tr("Trainings that have finished"))
        self.progress.setTextVisible(False)
        title, columns, keys = self.windowTitle(), text_columns(()), (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        self.table = RowsTable("scalingTableView", title, columns, key=lambda row: row[0], open_keys=keys)
        self.plot = ScalingPlot()
        self.notices = PlainLabel(name="scalingNotices", wraps=True)
        mark(self.notices, tone="warn")
        for part, share in ((self.sentence, 0), (self.progress, 0), (self.table, 0), (self.plot, 1), (self.notices, 0)):
            self.content.addWidget(part, share)
        self.export = self.add_button("exportButton", tr("Export…"), self.export_asked.emit)
        self.compare = self.add_button("compareRunsButton", tr("Compare curves"), self.compare_asked.emit)
        self.go_on = self.add_button("continueButton", tr("Continue"), self.continue_asked.emit)
        self.halt = self.add_button("haltButton", tr("Stop measuring"), self.stop_asked.emit)
        self.go_on.setToolTip(tr("Make the trainings that have not finished"))
        self.halt.setToolTip(tr("Stop the training under way, and start no other"))
        self.compare.setToolTip(tr("Draw the runs of the table in one plot, in the window"))
        self.export.setToolTip(tr("Write the table as CSV, Markdown or HTML, or its plot as PNG or SVG"))
        self.table.row_opened.connect(lambda row: self.row_chosen.emit(self.table.rows.index(row)))
        export: Entry = (tr("Export…"), self.export_asked.emit)
        give_menu(self.table, "scalingTableMenu", lambda _: [*copy_entries(self.copy_asked.emit), export])
        give_menu(self.plot, "scalingPlotMenu", lambda _: [(tr("Save picture…"), self.picture_asked.emit), export])
        self.resize(scaled(SIZE.width()), scaled(SIZE.height()))

    def show_progress(self, sentence: str, *, done: int, total: int, is_measured: bool, is_complete: bool) -> None:
        """Say what is going on; offer to stop it or to continue."""
        self.sentence.setText(sentence)
        self.progress.setRange(0, total)
        self.progress.setValue(done)
        self.progress.setVisible(is_measured)
        self.compare.setEnabled(done > 1)
        self.halt.setVisible(is_measured)
        self.go_on.setVisible(not is_measured and not is_complete)

    def show_table(self, cells: Sequence[Sequence[str]], notices: Sequence[str]) -> None:
        """Show the table, the first row of `cells` its headings. Without any, there are no numbers yet."""
        self.export.setEnabled(bool(cells))
        self.table.setVisible(bool(cells))
        self.plot.setVisible(bool(cells))
        self.notices.setText("\n".join(notices))
        self.notices.setVisible(bool(notices))
        if not cells or [list(row) for row in cells] == self._shown:
            return
        self._shown = [list(row) for row in cells]
        headings, *rows = cells
        self.table.show_columns(text_columns(headings, NUMBERS), rows)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        """Follow the size of the text, after the table has."""
        super().changeEvent(event)
        if self._shown and event.type() in {QEvent.Type.FontChange, QEvent.Type.StyleChange}:
            QTimer.singleShot(0, self, self._fit)

    def _fit(self) -> None:
        """Give the table and the dialog the room that the cells need."""
        self.table.horizontalHeader().setStretchLastSection(False)
        self.table.resizeColumnsToContents()
        wanted = self.table.horizontalHeader().length() + self.characters(6)
        self.table.horizontalHeader().setStretchLastSection(True)
        scroll_px = self.table.horizontalScrollBar().sizeHint().height() if wanted > self.maximum_px else 0
        self.table.setFixedHeight(self.table.height_of_rows() + scroll_px)
        if self.width() < min(wanted, self.maximum_px):
            self.resize(min(wanted, self.maximum_px), self.height())

    @property
    def maximum_px(self) -> int:
        """The greatest width that the dialog takes by itself."""
        return round(0.9 * self.screen().availableGeometry().width())
