"""A field for one setting of a recipe, after the kind of its default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QCheckBox, QLineEdit, QSpinBox, QWidget

from .fields import MOST, field, line, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.recipes import Setting
    from core.spec import SettingValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Editor:
    """A field, and how it is read and set."""

    widget: QWidget
    value: Callable[[], SettingValue]
    set_value: Callable[[SettingValue], None]


def editor(setting: Setting, recipe: str, changed: Callable[[], None]) -> Editor:
    """The field for a setting; it shows the default, and calls `changed` when it is another."""
    default = setting.default
    tip = f"Setting of {recipe}; its default is {default!r}"
    name = f"setting-{setting.name}"
    if isinstance(default, bool):
        made = _check(name, setting.name, tip, changed)
    elif isinstance(default, int) and abs(default) <= MOST:
        made = _whole(name, setting.name, tip, changed)
    else:
        made = _text(name, setting.name, tip, changed, empty_is_none=default is None)
    made.set_value(default)
    return made


def _check(name: str, title: str, tip: str, changed: Callable[[], None]) -> Editor:
    box = QCheckBox()
    field(box, name, title, tip)
    box.toggled.connect(lambda _: changed())
    return Editor(widget=box, value=box.isChecked, set_value=lambda value: box.setChecked(value is True))


def _whole(name: str, title: str, tip: str, changed: Callable[[], None]) -> Editor:
    box: QSpinBox = whole_number(name, title, tip, least=-MOST, value=0)
    box.valueChanged.connect(lambda _: changed())
    return Editor(widget=box, value=box.value, set_value=lambda value: _set_whole(box, value))


def _set_whole(box: QSpinBox, value: SettingValue) -> None:
    if isinstance(value, int) and abs(value) <= MOST:
        box.setValue(value)


def _text(name: str, title: str, tip: str, changed: Callable[[], None], *, empty_is_none: bool) -> Editor:
    """Numbers with a point are texts too: whether one fits is for the recipe to say, in a sentence."""
    edit: QLineEdit = line(name, title, tip)
    if empty_is_none:
        edit.setPlaceholderText("none")
    edit.textChanged.connect(lambda _: changed())

    def value() -> SettingValue:
        return None if empty_is_none and not edit.text() else edit.text()

    return Editor(widget=edit, value=value, set_value=lambda value: edit.setText("" if value is None else str(value)))
