"""Labels that shorten their texts to fit."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QTextDocumentFragment

from gui.base.painting import elided
from gui.base.theme import DARK
from gui.plots.items.hover import HoverRow, readout_forms
from gui.widgets.elided_label import ElidedLabel, ReadoutLabel

TEXT = "· Script, one process per device on 2 devices"


@pytest.mark.parametrize(("letters", "shown"), [(3, False), (20, True)])
def test_label_without_room_is_blank_instead_of_ellipsis(qtbot, letters, shown):
    label, blank = ElidedLabel(TEXT), ElidedLabel("")
    for each in (label, blank):
        qtbot.addWidget(each)
        each.resize(label.fontMetrics().averageCharWidth() * letters, 20)
    assert (label.grab().toImage() != blank.grab().toImage()) is shown
    assert label.toolTip() == TEXT


def test_name_that_begins_with_a_date_is_cut_and_not_left_out(qtbot):
    label = ElidedLabel("20260101-000001-digits")
    qtbot.addWidget(label)
    width = label.fontMetrics().horizontalAdvance("20260101-0000…")
    shown = elided(label.fontMetrics(), label.text(), width)
    assert label.text().startswith(shown.removesuffix("…"))
    assert len(shown) > 8


def test_readout_leaves_out_labels_then_values(qtbot):
    rows = [
        HoverRow(label="train mean", value="0.3915", colour=DARK.train),
        HoverRow(label="best validation", value="0.4098", colour=DARK.validation),
    ]
    label = ReadoutLabel()
    qtbot.addWidget(label)
    label.show_forms(readout_forms(rows))
    label.show()
    assert 130 < label.minimumWidth() < 170, "its neighbours leave room for both values"
    label.setMinimumWidth(0)
    seen = []
    for letters in range(60, 0, -1):
        label.resize(label.fontMetrics().averageCharWidth() * letters, 20)
        text = QTextDocumentFragment.fromHtml(label.text()).toPlainText()
        if text not in seen:
            seen.append(text)
    squeezed = [" ".join(each.replace("\u25a0", "").split()) for each in seen]
    assert squeezed == ["train mean 0.3915 best validation 0.4098", "0.3915 0.4098", "0.3915", "0.3915"]
    assert [each.count("\u25a0") for each in seen] == [2, 2, 1, 0]
    assert "train mean" in label.toolTip()
    label.resize(600, 20)
    assert label.toolTip() == ""
