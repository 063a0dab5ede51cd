"""A plot as a picture or as text, for files and the clipboard."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QPoint
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QWidget

from core.series.series import Axis, Series

SCALE = 2
"""Dots of a PNG for each dot of the screen, so that it is sharp in print."""
MAX_ROWS = 20_000
"""Values that the clipboard gets: writing more of them would hold the window up."""
HEADING = "name\tstep\ttime\tvalue"


def png(widget: QWidget) -> QImage:
    """Return what a widget shows, with more dots than the screen has. It can be saved on another thread."""
    image = QImage(widget.size() * SCALE, QImage.Format.Format_ARGB32)
    image.setDevicePixelRatio(SCALE)
    image.fill(widget.palette().window().color())
    widget.render(image, QPoint())
    return image


def png_bytes(image: QImage) -> bytes:
    """Return a picture as the content of a PNG file."""
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # type: ignore[call-overload]  # PySide's stub lacks devices
    buffer.close()
    return bytes(data.data())


def svg(widget: QWidget) -> bytes:
    """Return what a widget shows, as lines and text."""
    from PySide6.QtSvg import QSvgGenerator

    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setSize(widget.size())
    generator.setViewBox(widget.rect())
    generator.setResolution(widget.logicalDpiX())
    painter = QPainter(generator)
    painter.fillRect(widget.rect(), widget.palette().window())
    widget.render(painter, QPoint())
    painter.end()
    buffer.close()
    return bytes(data.data())


def values_text(measured: Sequence[tuple[str, Series, Axis]], span: tuple[float, float]) -> tuple[str, int]:
    """Return every measurement between two positions as lines of tab-separated fields, and their number.

    `measured`: names, values and axes. Time is in unix seconds. Without the text if there are more than `MAX_ROWS`.
    """
    parts = []
    for name, series, axis in measured:
        along = axis.place(series.steps if axis.column == "step" else series.times)
        inside = np.flatnonzero((along >= span[0]) & (along <= span[1]))
        parts.append((name, series.steps[inside], series.times[inside], series.values[inside]))
    count = sum(len(steps) for _, steps, _, _ in parts)
    if count > MAX_ROWS:
        return "", count
    lines = [
        f"{name}\t{int(step)}\t{time:.3f}\t{value!r}"
        for name, *columns in parts
        for step, time, value in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return "\n".join([HEADING, *lines]) + "\n", count
