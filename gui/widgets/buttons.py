"""Buttons, small check boxes and menus of buttons; buttons that keep the focus while they are disabled."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QCheckBox, QMenu, QPushButton, QStyle, QStyleOptionButton, QToolButton

from gui.base.icons import SIDE_PX, ButtonIcon
from gui.widgets.plain_text import named


def push_button(
    name: str, text: str, tip: str = "", *, role: str = "", spoken: str = "", does: Callable[[], object] | None = None
) -> QPushButton:
    """Return a button that Enter elsewhere in a dialog does not press.

    `role`: one of the style sheet, see its head; `spoken`: what a screen reader says in place of the text; `does`: what
    a press does.
    """
    button = named(QPushButton(text), name, spoken, tip, role=role)
    button.setAutoDefault(False)
    if does is not None:
        button.clicked.connect(lambda _: does())
    return button


def compact_button(
    name: str, text: str, tip: str = "", *, role: str = "", spoken: str = "", does: Callable[[], object] | None = None
) -> QPushButton:
    """Return a small button; the arguments are those of `push_button`."""
    return named(push_button(name, text, tip, role=role, spoken=spoken, does=does), compact=True)


def icon_button(
    icon: str, name: str, spoken: str, tip: str = "", *, side: int = SIDE_PX, compact: bool = False
) -> QToolButton:
    """Return a button without a text, with an icon of this size (`gui.base.icons`)."""
    button = named(QToolButton(), name, spoken, tip or spoken, compact=compact)
    ButtonIcon(button, icon, side=side)
    return button


def give_menu_below(button: QToolButton, text: str, name: str) -> QMenu:
    """Show a text and a mark on a button that opens a menu below it, and return the menu."""
    named(button, compact=True, unfolds=True)
    button.setText(f"{text} ")
    button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
    menu = named(QMenu(button), name)
    button.setMenu(menu)
    return menu


def compact_check(name: str, text: str, tip: str, *, spoken: str = "", checked: bool = False) -> QCheckBox:
    """Return a small check box; the arguments are those of `compact_button`."""
    box = named(QCheckBox(text), name, spoken, tip, compact=True)
    box.setChecked(checked)
    return box


class SteadyButton(QPushButton):
    """For a button that is disabled while it does what its press has asked for.

    Qt would move the focus to the next button, where a second press of the space bar would do something else.
    """

    def __init__(self, text: str = "") -> None:
        super().__init__(text)
        self._compact = False

    def show_compact(self, compact: bool) -> None:
        """Show the icon alone, or the text too. The text stays the button's name in either case."""
        if compact is not self._compact:
            self._compact = compact
            self.updateGeometry()
            self.update()

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: N802 (Qt's signature)
        """Keep the focus when Qt asks because this button was disabled: a disabled widget receives no keys."""
        return True if not self.isEnabled() else super().focusNextPrevChild(forward)

    def initStyleOption(self, option: QStyleOptionButton) -> None:  # noqa: N802 (Qt's name)
        """Leave out the text of a compact button."""
        super().initStyleOption(option)
        if self._compact:
            option.text = ""

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the size of the icon in its frame, or that of icon and text."""
        whole = super().sizeHint()
        if not self._compact:
            return whole
        option = QStyleOptionButton()
        self.initStyleOption(option)
        framed = self.style().sizeFromContents(QStyle.ContentsType.CT_PushButton, option, self.iconSize(), self)
        return QSize(framed.width(), whole.height())

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the size: a cut text would mislead."""
        return self.sizeHint()
