"""What the fields of the training card share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QComboBox,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QScrollArea,
    QSizePolicy,
    QSpinBox,
    QStyledItemDelegate,
    QVBoxLayout,
    QWidget,
)

from gui.style.theme import inset

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LABEL_WIDTH_PX = 128
ROW_PX = 30
MOST = 2**31 - 1
NO_ARROWS = """
QSpinBox::up-button, QSpinBox::down-button { width: 0px; }
QSpinBox::up-arrow, QSpinBox::down-arrow { image: none; width: 0px; height: 0px; }
"""


class NoWheel(QObject):
    """Keeps the wheel from changing a field that merely lies under the mouse while the form is scrolled."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Swallow the wheel for a field without the focus."""
        if event.type() == QEvent.Type.Wheel and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()
            return True
        return super().eventFilter(watched, event)


def field(widget: QWidget, name: str, accessible: str, tip: str) -> None:
    """Give a field its names and manners."""
    widget.setObjectName(name)
    widget.setAccessibleName(accessible)
    widget.setToolTip(tip)
    widget.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
    widget.setMinimumWidth(48)
    if isinstance(widget, (QComboBox, QAbstractSpinBox)):
        widget.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        widget.installEventFilter(NoWheel(widget))


def whole_number(name: str, accessible: str, tip: str, *, least: int, value: int, arrows: bool = True) -> QSpinBox:
    """A field for a whole number."""
    box = QSpinBox()
    box.setRange(least, MOST)
    box.setValue(value)
    box.setAccelerated(True)
    box.setKeyboardTracking(True)
    if not arrows:
        # Not `NoButtons`: under a style sheet Qt then leaves no room for the number either.
        box.setStyleSheet(NO_ARROWS)
    inset(box)
    field(box, name, accessible, tip)
    return box


def choice(name: str, accessible: str, tip: str, items: Iterable[tuple[str, str]] = ()) -> QComboBox:
    """A field for one of several; `items`: what is read, and the id behind it."""
    box = QComboBox()
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    box.setMinimumContentsLength(4)
    box.setItemDelegate(QStyledItemDelegate(box))  # a combo box's own pays no heed to the style sheet
    for title, data in items:
        box.addItem(title, data)
    field(box, name, accessible, tip)
    return box


def select(box: QComboBox, data: str | None) -> bool:
    """Choose the item with this id; whether there is one."""
    row = box.findData(data)
    if row >= 0:
        box.setCurrentIndex(row)
    return row >= 0


def line(name: str, accessible: str, tip: str) -> QLineEdit:
    """A field for a text."""
    edit = QLineEdit()
    field(edit, name, accessible, tip)
    return edit


def form(parent: QWidget) -> QFormLayout:
    """Rows of a label and a field, aligned with those of the other forms."""
    layout = QFormLayout(parent)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setHorizontalSpacing(8)
    layout.setVerticalSpacing(7)
    layout.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
    layout.setRowWrapPolicy(QFormLayout.RowWrapPolicy.DontWrapRows)
    return layout


def label(text: str, buddy: QWidget, width_px: int = LABEL_WIDTH_PX) -> QLabel:
    """The label of a field; `&` before a letter makes Alt and it go there."""
    made = QLabel(text)
    made.setProperty("role", "small")
    made.setFixedWidth(width_px)
    made.setBuddy(buddy)
    made.setMinimumHeight(ROW_PX)
    made.setToolTip(buddy.toolTip())
    return made


def stacked(*parts: QWidget) -> QWidget:
    """Parts of a form, one above the other."""
    stack = QWidget()
    layout = QVBoxLayout(stack)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(7)
    for part in parts:
        layout.addWidget(part)
    return stack


def side_by_side(*fields: QWidget, shares: Sequence[int] = ()) -> QWidget:
    """Fields in one row; `shares`: of its width, the same for all where none are given."""
    row = QWidget()
    layout = QHBoxLayout(row)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(7)
    for each, share in zip(fields, shares or [1] * len(fields), strict=True):
        each.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        layout.addWidget(each, share)
    row.setFocusProxy(fields[0])
    return row


def beside(field: QWidget, button: QWidget) -> QWidget:
    """A field that takes the room, and a button right of it."""
    row = QWidget()
    layout = QHBoxLayout(row)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(7)
    layout.addWidget(field, 1)
    layout.addWidget(button)
    row.setFocusProxy(field)
    return row


class FormScroll(QScrollArea):
    """As high as its content where there is room, and scrolled where there is not."""

    def __init__(self, content: QWidget) -> None:
        super().__init__()
        self._content = content
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(content)

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """That of the content."""
        return self._content.sizeHint()

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Two rows or so."""
        return QSize(240, 80)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Notice that the content has become another size."""
        if watched is self._content and event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return super().eventFilter(watched, event)
