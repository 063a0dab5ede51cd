"""The lists of boxes, and the size of what is clicked."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QAbstractButton, QComboBox, QListView

pytestmark = pytest.mark.styled

MIN_PX = 24
"""Least side of a target by WCAG 2.2."""


def test_each_target_is_large_enough_and_each_list_shows_all_rows(drive) -> None:
    panel = drive()
    targets = [*panel.window.findChildren(QAbstractButton), *panel.window.findChildren(QComboBox)]
    sizes = {each.objectName() or each.text(): each.size() for each in targets if each.isVisible()}
    assert len(sizes) > 10
    assert {name: size.toTuple() for name, size in sizes.items() if min(size.toTuple()) < MIN_PX} == {}
    boxes = [box for box in panel.window.findChildren(QComboBox) if box.count()]
    assert {"frameworkBox", "recipeBox", "strategyBox", "xAxisBox"} <= {box.objectName() for box in boxes}
    for box in boxes:
        box.showPopup()
        view = box.view()
        assert isinstance(view, QListView)
        panel.until(view.isVisible, f"the list of {box.objectName()}")
        rows = [view.visualRect(box.model().index(row, 0)) for row in range(box.count())]
        assert rows[-1].bottom() <= view.viewport().height(), box.objectName()
        assert rows[0].top() >= 0, box.objectName()
        assert view.sizeHintForColumn(0) <= view.viewport().width(), box.objectName()
        assert not view.horizontalScrollBar().isVisible(), box.objectName()
        box.hidePopup()
