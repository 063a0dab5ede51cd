"""Fields for whole numbers: what they show is what is used."""

from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QLineEdit, QPushButton, QStyleOptionComboBox, QWidget

from gui.features.compare.scaling import ScalingDialog
from gui.widgets import forms
from gui.widgets.fields import ChoiceBox, FormScroll
from gui.widgets.layouts import vbox


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


def test_a_field_that_gets_the_focus_from_outside_of_its_form_is_scrolled_into_view(hold, qtbot) -> None:
    page, content, below = QWidget(), QWidget(), QPushButton()
    *_, last = fields = [QLineEdit() for _ in range(20)]
    vbox(content, *fields)
    scroll = FormScroll(content)
    vbox(page, scroll, below)
    hold(page, 200, 200).activateWindow()
    qtbot.waitUntil(page.isActiveWindow)
    below.setFocus()
    qtbot.keyClick(below, Qt.Key.Key_Backtab)
    assert last.hasFocus()
    assert scroll.viewport().rect().contains(QRect(last.mapTo(scroll.viewport(), QPoint(0, 0)), last.size()))


def test_a_click_on_a_button_that_is_partly_in_view_is_not_lost(hold, qtbot) -> None:
    content, clicked = QWidget(), list[int]()
    buttons = [QPushButton(str(number)) for number in range(20)]
    for number, button in enumerate(buttons):
        button.clicked.connect(lambda _, number=number: clicked.append(number))
    vbox(content, *buttons)
    scroll = hold(FormScroll(content), 200, 200)
    bottom = scroll.viewport().height()
    at, top = next((number, y) for number, each in enumerate(buttons)
                   if (y := each.mapTo(scroll.viewport(), QPoint(0, 0)).y()) + each.height() > bottom)
    scroll.verticalScrollBar().setValue(top - bottom + 6)
    window, place = scroll.windowHandle(), buttons[at].mapTo(scroll, QPoint(20, 2))
    qtbot.mouseClick(window, Qt.MouseButton.LeftButton, pos=place)
    assert clicked == [at]


def test_the_list_of_a_box_shows_its_texts_whole_but_a_name_of_200_letters(hold) -> None:
    box = hold(ChoiceBox(), 60, 30)
    box.addItems(["loss", "a_metric_whose_name_is_wider_than_its_box"])
    box.showPopup()
    assert box.view().width() >= box.view().sizeHintForColumn(0)
    box.hidePopup()
    box.addItem("x" * 200)
    box.showPopup()
    assert box.view().minimumWidth() <= 2 * box.screen().size().width() // 3
    box.hidePopup()
