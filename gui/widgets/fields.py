"""Single fields of a form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from PySide6.QtCore import QEvent, QLocale, QObject, QSize, Qt
from PySide6.QtGui import QValidator
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QFormLayout,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QSpinBox,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionComboBox,
    QWidget,
)

from core.config.sweep import values_of
from gui.base.text_size import scale, scaled
from gui.base.theme import inset
from gui.widgets.layouts import Watch, hbox, scroll_down
from gui.widgets.plain_text import PlainLabel, named, verbatim

MARGIN_PX = 28
"""Width that the list needs beside the text of a row."""
MAX_ROWS = 30
"""A longer list scrolls."""


class ChoiceBox(QComboBox):
    """Its list is as wide as its longest text, also where the box itself is narrow, up to two thirds of the screen."""

    def __init__(self) -> None:
        super().__init__()
        self.setMaxVisibleItems(MAX_ROWS)

    def initStyleOption(self, option: QStyleOptionComboBox) -> None:  # noqa: N802 (Qt's name)
        """End a text for which there is no room in an ellipsis: with a style sheet, Qt only cuts it."""
        super().initStyleOption(option)
        kind, part = QStyle.ComplexControl.CC_ComboBox, QStyle.SubControl.SC_ComboBoxEditField
        room = self.style().subControlRect(kind, option, part, self).width()
        option.currentText = self.fontMetrics().elidedText(option.currentText, Qt.TextElideMode.ElideRight, room)

    def showPopup(self) -> None:  # noqa: N802 (Qt's name)
        """Make the list wide enough and open it."""
        view = self.view()
        view.setMinimumWidth(min(view.sizeHintForColumn(0) + MARGIN_PX, 2 * self.screen().size().width() // 3))
        super().showPopup()


class SnugBox(ChoiceBox):
    """A box that is as wide as its present text, so that it reads like a title."""

    def __init__(self, max_characters: int) -> None:
        """`max_characters`: for how many there is room at most."""
        super().__init__()
        self._max_characters = max_characters
        self.currentTextChanged.connect(lambda _: self.updateGeometry())

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return room for the arrow and the text."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        metrics = self.fontMetrics()
        text_px = min(
            metrics.horizontalAdvance(self.currentText()), self._max_characters * metrics.horizontalAdvance("X")
        )
        kind, text = QStyle.ContentsType.CT_ComboBox, QSize(text_px, metrics.height())
        width = self.style().sizeFromContents(kind, option, text, self).width()
        return QSize(width, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the same width: the text must stay readable."""
        return QSize(self.sizeHint().width(), super().minimumSizeHint().height())


LABEL_WIDTH_PX = 128
ROW_PX = 30
"""Height of a label beside its field."""
MAX_NUMBER = 2**31 - 1
SEVERAL = re.compile(r"-?\d+(\s*[,;]\s*-?\d*)+")
"""Several whole numbers, or their beginning."""
NO_ARROWS = """
QSpinBox::up-button, QSpinBox::down-button { width: 0px; }
QSpinBox::up-arrow, QSpinBox::down-arrow { image: none; width: 0px; height: 0px; }
"""


class NoWheel(QObject):
    """Stops the wheel from changing a field under the mouse while the user scrolls the form."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Ignore the wheel for a field without focus."""
        if event.type() == QEvent.Type.Wheel and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()
            return True
        return super().eventFilter(watched, event)


def field(widget: QWidget, name: str, accessible: str, tip: str) -> None:
    """Set the names, tooltip, size policy and wheel behaviour of a field."""
    named(widget, name, accessible, tip)
    widget.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
    widget.setMinimumWidth(48)
    if isinstance(widget, QComboBox):
        widget.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        widget.setMinimumContentsLength(4)
    if isinstance(widget, (QComboBox, QAbstractSpinBox)):
        widget.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        widget.installEventFilter(NoWheel(widget))


class WholeBox(QSpinBox):
    """A field for a whole number, or for several: `64, 128`."""

    def __init__(self) -> None:
        super().__init__()
        self._typed = ""
        """The text with several numbers that was entered last; else empty."""

    @property
    def several(self) -> str:
        """The text with several numbers, of which `value` is the first; else empty."""
        text = self.lineEdit().text()
        return text if values_of(text, whole=True) else ""

    def validate(self, text: str, at: int) -> tuple[QValidator.State, str, int]:
        """Accept several numbers, too."""
        several = values_of(text, whole=True)
        if SEVERAL.fullmatch(text) and all(self.minimum() <= each <= self.maximum() for each in several):
            return QValidator.State.Acceptable if several else QValidator.State.Intermediate, text, at
        found: tuple[QValidator.State, str, int] = super().validate(text, at)
        return found

    def valueFromText(self, text: str) -> int:  # noqa: N802 (Qt's name)
        """Return the first of several numbers."""
        several = values_of(text, whole=True)
        self._typed = text if several else ""
        return int(several[0]) if several else super().valueFromText(text)

    def textFromValue(self, value: int) -> str:  # noqa: N802 (Qt's name)
        """Return all of the numbers."""
        return self._typed if self._typed and values_of(self._typed, whole=True)[0] == value else str(value)

    def setValue(self, value: int) -> None:  # noqa: N802 (Qt's name)
        """Show one number."""
        typed, self._typed = self._typed, ""
        super().setValue(value)
        if typed:
            self.lineEdit().setText(str(value))

    def show_several(self, text: str) -> None:
        """Show several numbers, if the text has some that can be entered."""
        if values_of(text, whole=True) and self.validate(text, 0)[0] is QValidator.State.Acceptable:
            self.lineEdit().setText(text)


def whole_number(
    name: str, accessible: str, tip: str, *, minimum: int, value: int, arrows: bool = True, box: QSpinBox | None = None
) -> QSpinBox:
    """Return a field for a whole number: this `box`, if one is given."""
    box = box or QSpinBox()
    box.setLocale(QLocale.c())  # digits as the command line takes them
    box.setRange(minimum, MAX_NUMBER)
    box.setValue(value)
    box.setAccelerated(True)
    box.setKeyboardTracking(True)
    if not arrows:
        # Not `NoButtons`: with a style sheet Qt would then leave no room for the number.
        box.setStyleSheet(NO_ARROWS)
    inset(box)
    field(box, name, accessible, tip)
    return box


def choice(name: str, accessible: str, tip: str, items: Iterable[tuple[str, str]] = ()) -> QComboBox:
    """Return a box to choose one of `items`: pairs of title and id."""
    box = ChoiceBox()
    box.setItemDelegate(QStyledItemDelegate(box))  # the default delegate ignores the style sheet
    for title, data in items:
        box.addItem(title, data)
    field(box, name, accessible, tip)
    return box


def select(box: QComboBox, data: str | None) -> bool:
    """Select the item with this id; return False if there is none."""
    row = box.findData(data)
    if row >= 0:
        box.setCurrentIndex(row)
    return row >= 0


def line(name: str, accessible: str, tip: str, empty: str = "") -> QLineEdit:
    """Return a field for a string; `empty`: what an empty field means, as a placeholder."""
    edit = QLineEdit()
    edit.setPlaceholderText(empty)
    field(edit, name, accessible, tip)
    return edit


def form(parent: QWidget) -> QFormLayout:
    """Return a layout with rows of label and field, aligned with other forms."""
    layout = QFormLayout(parent)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setHorizontalSpacing(8)
    layout.setVerticalSpacing(7)
    layout.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
    return layout


class FieldLabel(PlainLabel):
    """The label of a field: as wide as those above and below it, and as high as a field."""

    def __init__(self, text: str, width_px: int) -> None:
        super().__init__(text)
        self.setProperty("role", "small")
        self._width_px, self._scale = width_px, 0.0
        self._set_size()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        """Follow the size of the text."""
        super().changeEvent(event)
        if event.type() in {QEvent.Type.FontChange, QEvent.Type.StyleChange}:
            self._set_size()

    def _set_size(self) -> None:
        factor = scale()
        if factor != self._scale:  # Qt tells about a new style whenever a part of the window gets another parent
            self._scale = factor
            self.setFixedWidth(scaled(self._width_px))
            self.setMinimumHeight(scaled(ROW_PX))


def label(text: str, buddy: QWidget, width_px: int = LABEL_WIDTH_PX) -> PlainLabel:
    """Return the label of a field; Alt with the letter after `&` focuses the field."""
    made = FieldLabel(text, width_px)
    made.setBuddy(buddy)
    made.setToolTip(verbatim(buddy.toolTip()))
    return made


def row_of(*widgets: QWidget, shares: Sequence[int] = (), spacing_px: int = 7) -> QWidget:
    """Return a row of widgets; `shares`: their shares of the spare width."""
    ground = QWidget()
    hbox(ground, *zip(widgets, shares or [0] * len(widgets), strict=True), gap=spacing_px)
    return ground


def side_by_side(*fields: QWidget) -> QWidget:
    """Return fields of equal width in one row."""
    for each in fields:
        each.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    ground = row_of(*fields, shares=[1] * len(fields))
    ground.setFocusProxy(fields[0])
    return ground


def with_button(field: QWidget, button: QWidget) -> QWidget:
    """Return a row of a field that takes the width, and a button."""
    ground = row_of(field, button, shares=(1, 0))
    ground.setFocusProxy(field)
    return ground


def browse_button(name: str, accessible: str, tip: str, browse: Callable[[], None]) -> QPushButton:
    """Return a small button that calls `browse`."""
    button = named(QPushButton("…"), name, accessible, tip)
    button.setStyleSheet("QPushButton { padding: 4px 8px; }")
    button.clicked.connect(lambda _: browse())
    return button


class FormScroll(QScrollArea):
    """A scroll area as high as its content if there is room."""

    def __init__(self, content: QWidget) -> None:
        super().__init__()
        self._content = content
        scroll_down(self)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.setWidget(content)
        Watch(self, content, {QEvent.Type.LayoutRequest}, self.updateGeometry)
        if isinstance(app := QApplication.instance(), QApplication):
            app.focusChanged.connect(self._show_focus)

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the size of the content."""
        return self._content.sizeHint()

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the least width of the content, which is not scrolled sideways, and the height of a row."""
        return QSize(self._content.minimumSizeHint().width(), 40)

    def _show_focus(self, _: QWidget | None, widget: QWidget | None) -> None:
        # Qt does so only from one field to another. Below a pressed mouse nothing moves, or the click would be lost.
        if widget is not None and self._content.isAncestorOf(widget) and not QApplication.mouseButtons():
            self.ensureWidgetVisible(widget, 0, scaled(12))
