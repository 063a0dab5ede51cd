"""Axis labels: round ticks, with as many decimals as needed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter, QPixmap

from gui.base import text_size
from gui.base.formatting import clock, number
from gui.plots.items.canvas import Canvas, LeftAxis, log_positions, minor_log_positions, round_spacing, time_spacing


@pytest.mark.parametrize(
    ("seconds", "spacing", "text"),
    [
        (0, 1, "0:00"),
        (750, 30, "12:30"),
        (3723, 1, "1:02:03"),
        (59.99, 1, "1:00"),
        (3599.7, 1, "1:00:00"),
        (7.25, 0.25, "0:07.25"),
        (-5, 1, "-0:05"),
        (100_000, 60, "27:46:40"),
    ],
)
def test_times_are_formatted_like_a_clock(seconds: float, spacing: float, text: str) -> None:
    assert clock(seconds, spacing) == text


@pytest.mark.parametrize(
    ("value", "spacing", "text"),
    [(12_000, 500, "12\u2009000"), (0.25, 0.25, "0.25"), (2.5, 2.5, "2.5"), (-0.0, 0.1, "0.0"), (3e-6, 1e-6, "3e-06")],
)
def test_numbers_have_as_many_decimals_as_needed(value: float, spacing: float, text: str) -> None:
    assert number(value, spacing) == text


def test_ticks_are_at_round_values() -> None:
    assert [round_spacing(least) for least in (0.03, 1, 1.1, 2.2, 30, 700)] == [0.05, 1, 2, 2.5, 50, 1000]
    assert [time_spacing(least) for least in (0.2, 3, 16, 700, 50_000, 100_000)] == [0.2, 5, 30, 900, 86_400, 172_800]
    np.testing.assert_allclose(log_positions(-1, 1, 20), np.log10([0.1, 0.2, 0.5, 1, 2, 5, 10]))
    np.testing.assert_allclose(log_positions(-3, 3, 4), [-3, -1, 1, 3])
    assert len(log_positions(0.31, 0.45, 10)) >= 2


def test_low_plot_has_two_labels_where_they_fit(qapp) -> None:
    axis = LeftAxis()
    values = lambda height: axis.tickValues(-0.4, 19.8, height)[0][1]  # noqa: E731
    assert list(values(200)) == [0, 5, 10, 15]
    assert list(values(38)) == [0, 10]
    assert list(values(12)) == [0]


def test_decades_have_lines_without_labels_where_there_is_room(qapp) -> None:
    axis = LeftAxis()
    axis.show_logarithmic(True)
    (_, ticks), (spacing, minor) = axis.tickValues(0, 2, 300)
    np.testing.assert_allclose(sorted([*ticks, *minor]), np.log10([*range(1, 10), *range(10, 101, 10)]), atol=1e-12)
    assert set(axis.tickStrings(minor, 1, spacing)) == {""}
    assert "10" in axis.tickStrings(ticks, 1, None)
    assert minor_log_positions(0, 20, 300, []) == [], "decades are too low"


@pytest.mark.parametrize("zoom", text_size.ZOOMS)
def test_labels_of_times_are_whole_at_every_size_of_text(qtbot, zoom: float) -> None:
    text_size.set_zoom(zoom)
    try:
        canvas = Canvas(y_by_hand=False)
        qtbot.addWidget(canvas)
        canvas.recolour()
        canvas.resize(800, 300)
        canvas.show()
        canvas.view.setXRange(0, 7200, padding=0)
        paper = QPixmap(800, 300)
        canvas.grab()  # the axis finds out how high it is, and has that height afterwards
        qtbot.waitUntil(lambda: len(labels_of(canvas, paper)) >= 2)
        labels = labels_of(canvas, paper)
    finally:
        text_size.set_zoom(1.0)
    assert labels[0][1] == "0:00"
    assert canvas.bottom.mapRectToScene(labels[0][0]).left() >= 0, "it is cut at the edge"
    assert all(one.right() < other.left() for (one, _), (other, _) in pairwise(labels)), "two overlap"


def labels_of(canvas: Canvas, paper: QPixmap) -> list[tuple[QRectF, str]]:
    """Return the labels of the x axis, with where they stand."""
    with QPainter(paper) as painter:
        *_, labels = canvas.bottom.generateDrawSpecs(painter)
    return [(place, text) for place, _, text in labels]
