"""The marks of states, which tell a state without its colour."""

from __future__ import annotations

from itertools import combinations

import pytest
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QImage, QPainter

from core.runs.facts import STATES, RunState
from gui.base.icons import paint_mark
from gui.features.runlist.view import RunList
from gui.runs.actions import RunActions
from gui.runs.rows import RunRow
from gui.runs.words import STATE_MARKS, RunHeader

pytestmark = pytest.mark.styled

SIDE_PX = 24
"""Twice the size in the list."""


def painted(mark: str) -> QImage:
    image = QImage(SIDE_PX, SIDE_PX, QImage.Format.Format_ARGB32)
    image.fill(Qt.GlobalColor.black)
    painter = QPainter(image)
    paint_mark(painter, mark, QRectF(0, 0, SIDE_PX, SIDE_PX), "#ffffff")
    painter.end()
    return image


def difference(one: QImage, other: QImage) -> int:
    """Return the number of pixels that differ clearly."""
    places = [(x, y) for x in range(one.width()) for y in range(one.height())]
    pairs = ((one.pixelColor(*at).getRgb(), other.pixelColor(*at).getRgb()) for at in places)
    return sum(max(abs(a - b) for a, b in zip(mine, yours, strict=True)) > 96 for mine, yours in pairs)


def test_states_of_one_colour_have_marks_that_differ() -> None:
    ended = [STATE_MARKS[row.state] for row in STATES if row.over]
    assert len(set(ended)) == len(ended)
    assert STATE_MARKS[RunState.RUNNING] not in ended
    for one, other in combinations(sorted(set(STATE_MARKS.values())), 2):
        assert difference(painted(one), painted(other)) > 40, (one, other)


def test_list_and_header_show_the_mark(header, qtbot, tmp_path) -> None:
    runs = RunList(RunActions())
    for widget in (runs, header):
        qtbot.addWidget(widget)
        widget.resize(900, 80)
        widget.show()
    pictures = {}
    for mark in ("tick", "cross", "ring"):
        runs.show_rows([RunRow(dir=tmp_path, title="a", outcome="b", tone="good", mark=mark, tip="")])
        header.show_header(RunHeader(label="State", tone="good", mark=mark))
        pictures[mark] = [runs.viewport().grab().toImage(), header._state.grab().toImage()]
    for one, other in combinations(pictures.values(), 2):
        assert all(difference(a, b) > 8 for a, b in zip(one, other, strict=True))
