"""Editors: a field together with how it is read and set, whatever kind of field it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QCheckBox, QComboBox, QLineEdit, QSpinBox, QWidget

from .fields import MOST, ROW_PX, choice, field, line, select, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from core.schema.settings import SettingValue

MAX_CHARACTERS = 40
"""No number that was typed is longer: it is not brought back."""
MAX_DIGITS = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Editor:
    """A field, and how it is read and set. What does not fit a field is not set."""

    widget: QWidget
    value: Callable[[], SettingValue]
    set_value: Callable[[SettingValue], None]


def check(name: str, title: str, tip: str, changed: Callable[[], None], *, text: str = "") -> Editor:
    """For yes or no; `text` stands beside the box."""
    box = QCheckBox(text)
    field(box, name, title, tip)
    box.setMinimumHeight(ROW_PX)
    box.toggled.connect(lambda _: changed())
    return Editor(widget=box, value=box.isChecked, set_value=lambda value: box.setChecked(value is True))


def whole(
    name: str, title: str, tip: str, changed: Callable[[], None], *,
    least: int = -MOST, arrows: bool = True, suffix: str = "",
) -> Editor:  # fmt: skip
    """For a whole number; `suffix`: its unit."""
    box: QSpinBox = whole_number(name, title, tip, least=least, value=max(least, 0), arrows=arrows)
    box.setSuffix(suffix)
    box.valueChanged.connect(lambda _: changed())

    def set_value(value: SettingValue) -> None:
        if isinstance(value, int) and not isinstance(value, bool) and box.minimum() <= value <= box.maximum():
            box.setValue(value)

    return Editor(widget=box, value=box.value, set_value=set_value)


def one_of(name: str, title: str, tip: str, changed: Callable[[], None], items: Iterable[tuple[str, str]]) -> Editor:
    """For one of several; `items`: what is read, and the id behind it."""
    box: QComboBox = choice(name, title, tip, items)
    box.currentIndexChanged.connect(lambda _: changed())

    def set_value(value: SettingValue) -> None:
        select(box, str(value))

    return Editor(widget=box, value=box.currentData, set_value=set_value)


def text(
    name: str, title: str, tip: str, changed: Callable[[], None], *, empty: str = "", empty_is_none: bool = False
) -> Editor:
    """For a text; `empty`: what it means that there is none, in some words.

    Numbers with a point are texts too, where whether one fits is for somebody else to say.
    """
    edit: QLineEdit = line(name, title, tip)
    edit.setPlaceholderText(empty or ("none" if empty_is_none else ""))
    edit.textChanged.connect(lambda _: changed())

    def value() -> SettingValue:
        return None if empty_is_none and not edit.text() else edit.text()

    return Editor(widget=edit, value=value, set_value=lambda value: edit.setText("" if value is None else str(value)))


def number(name: str, title: str, tip: str, changed: Callable[[], None], *, empty: str) -> Editor:
    """For a number that may be left out; `empty`: what that means, in a word."""
    edit: QLineEdit = line(name, title, tip)
    edit.setPlaceholderText(empty)
    edit.textChanged.connect(lambda _: changed())

    def set_value(value: SettingValue) -> None:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        shown = "" if value is None else str(value)
        if not isinstance(value, bool) and len(shown) <= MAX_CHARACTERS:
            edit.setText(shown)

    return Editor(widget=edit, value=lambda: typed_number(edit.text()), set_value=set_value)


def typed_number(typed: str) -> float | str | None:
    """What was typed as a number; a decimal comma is one too. What is none stays a text, to be complained of."""
    typed = typed.strip()
    if not typed:
        return None
    if typed.isdecimal() and len(typed) <= MAX_DIGITS:
        return int(typed)
    try:
        return float(typed.replace(",", "."))
    except ValueError:
        return typed
