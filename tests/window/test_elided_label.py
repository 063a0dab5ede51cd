"""A label that gives way."""

from __future__ import annotations

import pytest

from gui.widgets.elided_label import ElidedLabel

TEXT = "· Script, one process per device on 2 devices"


@pytest.mark.parametrize(("letters", "shown"), [(3, False), (20, True)])
def test_a_text_of_which_next_to_nothing_is_left_is_not_shown_as_an_ellipsis(qtbot, letters, shown):
    label, blank = ElidedLabel(TEXT), ElidedLabel("")
    for each in (label, blank):
        qtbot.addWidget(each)
        each.resize(label.fontMetrics().averageCharWidth() * letters, 20)
    assert (label.grab().toImage() != blank.grab().toImage()) is shown
    assert label.toolTip() == TEXT
