"""A label that shortens its text to fit."""

from __future__ import annotations

import pytest

from gui.widgets.elided_label import ElidedLabel

TEXT = "· Script, one process per device on 2 devices"


@pytest.mark.parametrize(("letters", "shown"), [(3, False), (20, True)])
def test_label_without_room_is_blank_instead_of_ellipsis(qtbot, letters, shown):
    label, blank = ElidedLabel(TEXT), ElidedLabel("")
    for each in (label, blank):
        qtbot.addWidget(each)
        each.resize(label.fontMetrics().averageCharWidth() * letters, 20)
    assert (label.grab().toImage() != blank.grab().toImage()) is shown
    assert label.toolTip() == TEXT
