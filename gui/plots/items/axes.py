"""The axes of the plots: ticks at round numbers, at a readable distance."""

from __future__ import annotations

import math
import time
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QRectF

from core.language import tr
from gui.style.formatting import DAY_S, MONTHS, clock, number
from gui.style.text_size import scaled

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
        """`step`, `epoch`, `samples`, `time`, `training` or `wall`."""
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
            case "time" | "training" | "wall":
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
