"""The size of all text: that of the desktop's font, times a zoom that the user chooses."""

from __future__ import annotations

import math
import re

from PySide6.QtGui import QFontInfo
from PySide6.QtWidgets import QApplication

NORMAL_PX = 13
"""Size of plain text at a scale of 1. A desktop with a smaller font gets this size all the same."""
ZOOMS = (0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0)
_ZOOM, _FONT_PX = "textZoom", "textFontPixels"
"""Properties of the application: the zoom, and the size of the desktop's font, which takes long to find out."""
_LENGTH = re.compile(r"\b(\d+)px\b")
_THIN_PX = 2
"""Borders of up to this width stay as they are."""


def zoom() -> float:
    """Return the zoom, 1 if none was set."""
    app = QApplication.instance()
    value = app.property(_ZOOM) if app is not None else None
    return value if isinstance(value, float) else 1.0


def set_zoom(value: float) -> None:
    """Set the zoom, limited to that of `ZOOMS`. Apply the theme afterwards, as `PreferencesController` does."""
    app = QApplication.instance()
    if app is not None and math.isfinite(value):
        app.setProperty(_ZOOM, min(max(float(value), ZOOMS[0]), ZOOMS[-1]))


def next_zoom(step: int) -> float:
    """Return the next larger zoom (`step` 1) or the next smaller one (-1); the present one at the end."""
    larger = [each for each in ZOOMS if each > zoom() + 0.01]
    smaller = [each for each in ZOOMS if each < zoom() - 0.01]
    return (larger or [zoom()])[0] if step > 0 else (smaller or [zoom()])[-1]


def scale() -> float:
    """Return the size of plain text as a multiple of `NORMAL_PX`."""
    app = QApplication.instance()
    if not isinstance(app, QApplication):
        return 1.0
    desktop_px = app.property(_FONT_PX)
    if desktop_px is None:
        app.fontChanged.connect(_forget_font)
    if not desktop_px:
        desktop_px = QFontInfo(app.font()).pixelSize()
        app.setProperty(_FONT_PX, desktop_px)
    return max(float(desktop_px) / NORMAL_PX, 1.0) * zoom()


def _forget_font() -> None:
    app = QApplication.instance()
    if app is not None and app.property(_FONT_PX) is not None:
        app.setProperty(_FONT_PX, 0)


def scaled(length_px: float) -> int:
    """Return a length in pixels, given for a scale of 1, at the present scale."""
    return round(length_px * scale())


def scaled_sheet(sheet: str) -> str:
    """Return a style sheet with its lengths at the present scale."""
    _forget_font()  # its size in pixels is another one, too, after a change of the screen's resolution
    factor = scale()
    if factor == 1.0:
        return sheet

    def enlarge(found: re.Match[str]) -> str:
        length_px = int(found[1])
        return found[0] if length_px <= _THIN_PX else f"{round(length_px * factor)}px"

    return _LENGTH.sub(enlarge, sheet)
