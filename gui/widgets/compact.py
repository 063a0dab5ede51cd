"""Small buttons and check boxes, as the headings of cards and the lines of lists have them."""

from __future__ import annotations

from PySide6.QtWidgets import QCheckBox, QPushButton

from gui.widgets.plain_text import verbatim


def compact_button(name: str, text: str, tip: str = "", *, role: str = "", spoken: str = "") -> QPushButton:
    """Return a small button.

    `role`: one of the style sheet, see its head; `spoken`: what a screen reader says in place of the text.
    """
    button = QPushButton(text)
    button.setObjectName(name)
    button.setProperty("compact", True)
    if role:
        button.setProperty("role", role)
    if tip:
        button.setToolTip(verbatim(tip))
    if spoken:
        button.setAccessibleName(spoken)
    button.setAutoDefault(False)
    return button


def compact_check(name: str, text: str, tip: str, *, spoken: str = "", checked: bool = False) -> QCheckBox:
    """Return a small check box; the arguments are those of `compact_button`."""
    box = QCheckBox(text)
    box.setObjectName(name)
    box.setProperty("compact", True)
    box.setToolTip(verbatim(tip))
    if spoken:
        box.setAccessibleName(spoken)
    box.setChecked(checked)
    return box
