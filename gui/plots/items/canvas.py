"""The drawing area of a plot, and its axes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any

import pyqtgraph as pg
from pyqtgraph.GraphicsScene.mouseEvents import MouseClickEvent, MouseDragEvent
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QKeyEvent
from PySide6.QtWidgets import QGraphicsSceneWheelEvent

from core.devices.device import LABEL_SEPARATOR
from core.language import tr, tr_noop
from gui.base.formatting import DAY_S, MONTHS, clock, number
from gui.base.text_size import scaled
from gui.base.theme import current_theme
from gui.widgets.layouts import Watch

TIME_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
LABEL_DISTANCE_PX = 96
ROW_DISTANCE_PX = 26
TIGHT_DISTANCE_PX = 15
"""Least distance of two rows. It is used where a good distance would leave one label, which shows no scale."""
LABEL_MARGIN_PX = 8
MINOR = 0.0
"""The spacing that stands for lines without labels."""
MIN_DECADE_PX = 40
"""Height of a decade from which on the lines between its ends are drawn."""


class BottomAxis(pg.AxisItem):  # type: ignore[misc]  # pyqtgraph ships no types
    """Shows steps, epochs, samples, seconds as `12:30`, or times of day."""

    def __init__(self) -> None:
        super().__init__("bottom")
        self.kind = "time"
        """`step`, `epoch`, `samples`, `time`, `training`, `ago` or `wall`."""
        self.origin = 0.0
        """The unix time of position 0, for `wall`."""

    def show_kind(self, kind: str, origin: float = 0.0) -> None:
        """Set what the positions are: see `kind` and `origin`."""
        if (kind, origin) != (self.kind, self.origin):
            self.kind, self.origin = kind, origin
            self.picture = None  # redraw the labels even if the range stays
            self.update()

    def boundingRect(self) -> QRectF:  # noqa: N802 (Qt's name)
        """Return the axis with room for half of the first label, however large the text is: there is room beside it."""
        return super().boundingRect().adjusted(-scaled(LABEL_MARGIN_PX), 0, 0, 0)  # type: ignore[no-any-return]

    def tickSpacing(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, float]]:  # noqa: N802, N803
        """Return one level of ticks as a (spacing, offset) pair."""
        minimum = (maxVal - minVal) * scaled(LABEL_DISTANCE_PX) / max(size, 1)
        match self.kind:
            case "time" | "training" | "wall" | "ago":
                spacing = time_spacing(minimum)
            case "step" | "samples":
                spacing = math.ceil(round_spacing(max(minimum, 1.0)))
            case _:
                spacing = round_spacing(minimum)
        return [(spacing, 0)]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:  # noqa: ARG002, N802
        """Return the labels of positions."""
        if self.kind == "wall":
            return [_of_day(self.origin + value, spacing) for value in values]
        if self.kind == "ago":
            return [_ago(value) for value in values]
        label = clock if self.kind in {"time", "training"} else number
        return [label(value, spacing) for value in values]


class LeftAxis(pg.AxisItem):  # type: ignore[misc]  # pyqtgraph ships no types
    """Shows values. On a logarithmic scale, positions are powers of ten."""

    def __init__(self) -> None:
        super().__init__("left")
        self.logarithmic = False

    def show_logarithmic(self, logarithmic: bool) -> None:
        """Set whether positions are powers of ten."""
        if logarithmic != self.logarithmic:
            self.logarithmic = logarithmic
            self.picture = None
            self.update()

    def boundingRect(self) -> QRectF:  # noqa: N802 (Qt's name)
        """Return the axis and half a label beyond either end: with a grid, pyqtgraph would omit those labels."""
        return super().boundingRect().adjusted(0, -LABEL_MARGIN_PX, 0, LABEL_MARGIN_PX)  # type: ignore[no-any-return]

    def tickSpacing(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, float]]:  # noqa: N802, N803
        """Return one level of ticks as a (spacing, offset) pair."""
        per_pixel = (maxVal - minVal) / max(size, 1)
        spacing = round_spacing(per_pixel * scaled(ROW_DISTANCE_PX))
        is_alone = math.floor(maxVal / spacing) - math.ceil(minVal / spacing) < 1
        return [(round_spacing(per_pixel * scaled(TIGHT_DISTANCE_PX)) if is_alone else spacing, 0)]

    def tickValues(self, minVal: float, maxVal: float, size: float) -> list[tuple[float | None, Any]]:  # noqa: N802, N803
        """Return the ticks as pairs of spacing and positions."""
        if not self.logarithmic:
            return super().tickValues(minVal, maxVal, size)  # type: ignore[no-any-return]
        ticks = log_positions(minVal, maxVal, int(max(size, 1) / scaled(ROW_DISTANCE_PX)))
        return [(None, ticks), (MINOR, minor_log_positions(minVal, maxVal, size, ticks))]

    def tickStrings(self, values: list[float], scale: float, spacing: float | None) -> list[str]:  # noqa: ARG002, N802
        """Return the labels of positions; lines between them have none."""
        if spacing == MINOR:
            return [""] * len(values)
        if spacing is None or self.logarithmic:
            return [f"{10**value:.3g}" for value in values]
        return [number(value, spacing) for value in values]


def _of_day(when: float, spacing_s: float) -> str:
    """Return the time of day of a unix time, or the day at its beginning."""
    then = time.localtime(when)
    if spacing_s >= DAY_S or not (then.tm_hour or then.tm_min or then.tm_sec):
        return tr("{day} {month}", day=then.tm_mday, month=tr(MONTHS[then.tm_mon - 1]))
    return time.strftime("%H:%M:%S" if spacing_s < 60 else "%H:%M", then)


AGO = ((3600, tr_noop("−{count} h")), (60, tr_noop("−{count} min")), (1, tr_noop("−{count} s")))
"""Units of the seconds before now, and how they are written."""


def _ago(value_s: float) -> str:
    """Return seconds before now, which are negative, in the largest unit of `AGO` that they have no part of."""
    seconds = round(-value_s)
    unit_s, form = next(each for each in AGO if seconds % each[0] == 0)
    return tr(form, count=seconds // unit_s) if seconds else tr("now")


def round_spacing(minimum: float) -> float:
    """Return the smallest of 1, 2, 2.5, 5, 10, 20, ... (and their fractions) that is at minimum `minimum`."""
    if not (minimum > 0 and math.isfinite(minimum)):
        return 1.0
    decade = 10.0 ** math.floor(math.log10(minimum))
    return next((factor * decade for factor in (1.0, 2.0, 2.5, 5.0) if factor * decade >= minimum), 10 * decade)


def time_spacing(min_s: float) -> float:
    """Return the smallest round number of seconds, minutes, hours or days that is at minimum `min_s`."""
    if min_s <= 1:
        return round_spacing(min_s)
    day = 86400
    return next((step for step in TIME_STEPS_S if step >= min_s), day * round_spacing(min_s / day))


def log_positions(lo: float, hi: float, limit: int) -> list[float]:
    """Return up to about `limit` positions between `lo` and `hi`: powers of ten, with 2 and 5 if there is room."""
    first, last = math.floor(lo), math.ceil(hi)
    decades = max(last - first, 1)
    factors = (1, 2, 5) if 3 * (hi - lo) <= limit else (1,)
    stride = max(1, math.ceil(decades / max(limit, 1)))
    positions = (decade + math.log10(factor) for decade in range(first, last + 1, stride) for factor in factors)
    inside = [position for position in positions if lo <= position <= hi]
    return inside if len(inside) >= 2 else [lo + (hi - lo) * part for part in (0.1, 0.5, 0.9)]


def minor_log_positions(lo: float, hi: float, size_px: float, ticks: list[float]) -> list[float]:
    """Return the positions of 2, 3, ... 9 times the powers of ten between `lo` and `hi` that are not in `ticks`.

    There are none if decades are too low for them.
    """
    if not 0 < hi - lo <= size_px / MIN_DECADE_PX:
        return []
    every = (decade + math.log10(factor) for decade in range(math.floor(lo), math.ceil(hi)) for factor in range(1, 10))
    return [position for position in every if lo <= position <= hi and position not in ticks]


LEFT_AXIS_WIDTH_PX, MAX_LEFT_WIDTH_PX = 52, 130  # the same in every plot, to align the time axes
MARK_PX = 18
"""Room for the mark in the colour of a device beside its name."""
RIGHT_MARGIN_PX = 20  # room for half of the last label
TOP_MARGIN_PX = 6


X, Y = 0, 1
MIN_SELECTION_PX = 5
SELECTION_ALPHA = 60
"""Opacity out of 255."""


class View(pg.ViewBox):  # type: ignore[misc]  # pyqtgraph ships no types
    """The area between the axes.

    A drag selects a range of the x axis, and a drag with Shift or another button moves it. The wheel zooms the x axis.
    On the labels of the y axis, drag and wheel move and zoom the y axis.
    """

    moved = Signal(int)
    """The user moved or zoomed this axis, `X` or `Y`."""

    def __init__(self) -> None:
        super().__init__(enableMenu=False)
        self._selection: pg.LinearRegionItem | None = None
        self.selection_colour = ""

    def wheelEvent(self, ev: QGraphicsSceneWheelEvent, axis: int | None = None) -> None:  # noqa: N802
        """Zoom one axis."""
        which = Y if axis == Y else X
        super().wheelEvent(ev, axis=which)
        if self.mouseEnabled()[which]:
            self.moved.emit(which)

    def mouseDragEvent(self, ev: MouseDragEvent, axis: int | None = None) -> None:  # noqa: N802
        """Select a range, or move one axis."""
        is_shifted = bool(ev.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if axis is None and ev.button() is Qt.MouseButton.LeftButton and not is_shifted:
            ev.accept()
            self._select(ev)
            return
        which = Y if axis == Y else X
        super().mouseDragEvent(ev, axis=which)
        if self.mouseEnabled()[which]:
            self.moved.emit(which)

    def _select(self, ev: MouseDragEvent) -> None:
        ends = sorted(self.mapToView(point).x() for point in (ev.buttonDownPos(), ev.pos()))
        if not ev.isFinish():
            self._show_selection(ends)
            return
        if self._selection is not None:
            self._selection.hide()
        if abs(ev.pos().x() - ev.buttonDownPos().x()) >= MIN_SELECTION_PX:
            self.setXRange(*ends, padding=0)
            self.moved.emit(X)

    def _show_selection(self, ends: list[float]) -> None:
        if self._selection is None:
            self._selection = pg.LinearRegionItem(movable=False, pen=pg.mkPen(None))
            self.addItem(self._selection, ignoreBounds=True)
        colour = QColor(self.selection_colour)
        colour.setAlpha(SELECTION_ALPHA)
        self._selection.setBrush(colour)
        self._selection.setRegion(ends)
        self._selection.show()


class Canvas(pg.PlotWidget):  # type: ignore[misc]  # pyqtgraph ships no types
    """A plot area that is panned and zoomed with the mouse (see `View`) or with the arrow keys, + and -."""

    moved_by_hand = Signal()
    """The user has moved or zoomed the x axis."""
    y_moved_by_hand = Signal()
    """The user has moved or zoomed the y axis."""
    follow_asked = Signal()
    """Emitted on a double click or the key A."""
    pointed = Signal(object)
    """Position of the mouse on the x axis (float); None if the mouse has left."""

    def __init__(self, *, y_by_hand: bool) -> None:
        self.pointed_y: float | None = None
        """Position of the mouse on the y axis; None if the mouse is elsewhere."""
        self.bottom, self.left = BottomAxis(), LeftAxis()
        self._names: tuple[str, ...] = ()
        self.view = View()
        super().__init__(viewBox=self.view, enableMenu=False, axisItems={"bottom": self.bottom, "left": self.left})
        self.view.disableAutoRange()
        self.view.setMouseEnabled(x=True, y=y_by_hand)
        self.getPlotItem().hideButtons()
        self._shape_axes()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.view.moved.connect(lambda axis: (self.y_moved_by_hand if axis == Y else self.moved_by_hand).emit())
        self.scene().sigMouseClicked.connect(self._on_clicked)
        self.scene().sigMouseMoved.connect(self._on_mouse_moved)
        Watch(self, self.viewport(), {QEvent.Type.Leave}, lambda: self._point_at(None))

    @property
    def x_range(self) -> tuple[float, float]:
        """The visible range of the x axis."""
        (lo, hi), _ = self.view.viewRange()
        return lo, hi

    @property
    def y_range(self) -> tuple[float, float]:
        """The visible range of the y axis."""
        _, (lo, hi) = self.view.viewRange()
        return lo, hi

    @property
    def pixel_size(self) -> tuple[float, float]:
        """Width and height of one logical pixel, in units of the axes."""
        (left, right), (bottom, top) = self.view.viewRange()
        return (right - left) / max(self.view.width(), 1.0), (top - bottom) / max(self.view.height(), 1.0)

    @property
    def pixels(self) -> int:
        """Width of the drawing area in device pixels."""
        return max(int(self.view.width() * self.devicePixelRatioF()), 16)

    def recolour(self) -> None:
        """Take the colours of the theme."""
        theme = current_theme()
        self.setBackground(theme.panel)
        self.view.selection_colour = theme.accent
        self._set_font()
        for axis in (self.bottom, self.left):
            axis.setPen(theme.panel_border)
            axis.setTickPen(theme.grid)
            axis.setTextPen(theme.muted)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Pan with the arrow keys, zoom with + and -, follow with A."""
        lo, hi = self.x_range
        step = (hi - lo) / 10
        match event.key():
            case Qt.Key.Key_A:
                self.follow_asked.emit()
            case Qt.Key.Key_Left:
                self._move_to(lo - step, hi - step)
            case Qt.Key.Key_Right:
                self._move_to(lo + step, hi + step)
            case Qt.Key.Key_Plus | Qt.Key.Key_Equal:
                self._move_to(lo + step, hi - step)
            case Qt.Key.Key_Minus:
                self._move_to(lo - step, hi + step)
            case _:
                super().keyPressEvent(event)

    def _move_to(self, lo: float, hi: float) -> None:
        self.view.setXRange(lo, hi, padding=0)
        self.moved_by_hand.emit()

    def _shape_axes(self) -> None:
        self._set_font()
        for axis in (self.bottom, self.left):
            # Let labels reach beyond the axis by this much, or the first and the last would be missing.
            axis.setStyle(tickLength=0, tickTextOffset=8, hideOverlappingLabels=RIGHT_MARGIN_PX)
            axis.setZValue(-1000)  # grid lines behind the curves
            axis.enableAutoSIPrefix(False)
        self.left.setGrid(255)
        self.getPlotItem().setContentsMargins(0, TOP_MARGIN_PX, RIGHT_MARGIN_PX, 0)

    def _set_font(self) -> None:
        """Show the labels at the size of the other texts."""
        font = QFont(self.font())
        font.setPixelSize(scaled(12))
        for axis in (self.bottom, self.left):
            axis.setTickFont(font)
        for item in self.scene().items():
            if isinstance(item, pg.TextItem):
                item.setFont(font)
        self._set_left_width()

    def make_room(self, names: Iterable[str]) -> None:
        """Make room for names of devices beside the axis, if they are those of other machines, which are longer."""
        self._names = tuple(name for name in names if LABEL_SEPARATOR in name)
        self._set_left_width()

    def _set_left_width(self) -> None:
        metrics = QFontMetricsF(self.left.style["tickFont"])
        needed = max((metrics.horizontalAdvance(name) + MARK_PX for name in self._names), default=0.0)
        usual, most = scaled(LEFT_AXIS_WIDTH_PX), scaled(MAX_LEFT_WIDTH_PX)
        self.left.setWidth(min(max(usual, int(needed)), most))

    def _on_clicked(self, event: MouseClickEvent) -> None:
        if event.double():
            self.follow_asked.emit()

    def _on_mouse_moved(self, position: QPointF) -> None:
        is_inside = self.view.sceneBoundingRect().contains(position)
        self._point_at(self.view.mapSceneToView(position) if is_inside else None)

    def _point_at(self, at: QPointF | None) -> None:
        """Report where the mouse is; None: elsewhere."""
        self.pointed_y = None if at is None else at.y()
        self.pointed.emit(None if at is None else at.x())
