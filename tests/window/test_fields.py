"""Fields for whole numbers: what they show is what is used."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QStyleOptionComboBox

from gui.features.compare.scaling import ScalingDialog
from gui.widgets import forms
from gui.widgets.fields import ChoiceBox


def test_a_field_has_the_value_that_it_shows(hold, qtbot) -> None:
    editor = forms.integer("aBox", "A", "", lambda: None, minimum=1)
    box = hold(editor.widget, 200, 40)
    for keys, value in (("64, 128", "64, 128"), ("64", 64), ("1,2", "1,2")):
        box.selectAll()
        qtbot.keyClicks(box, keys)
        assert editor.value() == value
    qtbot.keyClick(box, Qt.Key.Key_Up)
    assert (box.text(), editor.value()) == ("2", 2)
    editor.set_value("64, 128")
    assert (box.text(), editor.value()) == ("64, 128", "64, 128")
    editor.set_value(64)
    assert (box.text(), editor.value()) == ("64", 64)


def test_the_repeats_of_a_table_are_one_number(hold, qtbot) -> None:
    dialog = hold(ScalingDialog(None, name="mine", judge=lambda _: ("", "")), 400, 300)
    box = dialog.repeats
    box.selectAll()
    qtbot.keyClicks(box, "2, 3")
    box.interpretText()
    assert box.text() == str(dialog.chosen[2])


def test_a_choice_that_is_cut_ends_in_an_ellipsis(hold) -> None:
    box = hold(ChoiceBox(), 400, 30)
    box.addItem("Automatic: Trainyard's")
    for width, shown in ((400, "Automatic: Trainyard's"), (110, "…")):
        box.resize(width, 30)
        option = QStyleOptionComboBox()
        box.initStyleOption(option)
        assert option.currentText.endswith(shown)
        assert box.currentText() == "Automatic: Trainyard's"
