"""Editors: form fields with one interface to read and set their value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from PySide6.QtWidgets import QCheckBox, QComboBox, QLineEdit, QSpinBox, QWidget

from core.language import tr
from core.schema.setting import Flag, Number, OneOf, Setting, Whole
from core.schema.settings import SettingValue
from core.text import capital
from gui.style.text_size import scaled

from .fields import MAX_NUMBER, ROW_PX, choice, field, line, select, whole_number

MAX_CHARACTERS = 40
"""Maximum characters of a number; longer values are not restored."""
MAX_DIGITS = 18
NAMES = {
    "epochs": "epochsBox", "batch_size": "batchBox", "learning_rate": "rateEdit", "warmup_steps": "warmupBox",
    "weight_decay": "decayEdit", "gradient_clip": "clipEdit", "stop_on_nan": "nanBox", "loader_workers": "workersBox",
    "bucket_mb": "bucketEdit", "gradient_compression": "compressionBox", "activation_checkpointing": "activationBox",
    "unit": "checkpointUnitBox", "every": "checkpointEveryBox", "keep": "checkpointKeepBox",
    "best": "checkpointBestBox",
}  # fmt: skip
"""Object names of fields that are not made from their options."""
WITHOUT_ARROWS = ("epochs", "batch_size", "warmup_steps", "every", "keep", "tolerance_mb")
"""Numbers that one types rather than counts up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Editor:
    """A field with functions to read and set its value. Setting an invalid value does nothing."""

    widget: QWidget
    value: Callable[[], SettingValue]
    set_value: Callable[[SettingValue], None]


def of_setting(row: Setting, changed: Callable[[], None], name: str = "") -> Editor:
    """Return the field of a setting. `name`: the object name, where it is not the usual one."""
    title, tip = tr(row.title), capital(tr(row.help))
    is_line = not isinstance(row.kind, (Flag, OneOf)) and (row.none or isinstance(row.kind, Number))
    option = row.attribute or row.name
    first, *others = option.split("_")
    camel = first + "".join(each.capitalize() for each in others)
    name = name or NAMES.get(row.name) or f"{camel}{'Edit' if is_line else 'Box'}"
    if isinstance(row.kind, Flag):
        return check(name, title, tip, changed, text=" ")
    if isinstance(row.kind, OneOf):
        return one_of(name, title, tip, changed, [(row.words(each), each) for each in row.kind.titles])
    if isinstance(row.kind, Whole) and not is_line:
        return integer(
            name, title, tip, changed, minimum=row.kind.minimum, arrows=row.name not in WITHOUT_ARROWS
        )  # fmt: skip
    empty = tr("{help}; empty: {default}", help=tip, default=row.default_words)
    return number(name, title, empty, changed, empty=row.default_words)


def check(name: str, title: str, tip: str, changed: Callable[[], None], *, text: str = "") -> Editor:
    """Return a check box; `text` is its label."""
    box = QCheckBox(text)
    field(box, name, title, tip)
    box.setMinimumHeight(scaled(ROW_PX))
    box.toggled.connect(lambda _: changed())
    return Editor(widget=box, value=box.isChecked, set_value=lambda value: box.setChecked(value is True))


def integer(
    name: str, title: str, tip: str, changed: Callable[[], None], *,
    minimum: int = -MAX_NUMBER, arrows: bool = True, suffix: str = "",
) -> Editor:  # fmt: skip
    """Return a field for a whole number; `suffix`: its unit."""
    box: QSpinBox = whole_number(name, title, tip, minimum=minimum, value=max(minimum, 0), arrows=arrows)
    box.setSuffix(suffix)
    box.valueChanged.connect(lambda _: changed())

    def set_value(value: SettingValue) -> None:
        if isinstance(value, int) and not isinstance(value, bool) and box.minimum() <= value <= box.maximum():
            box.setValue(value)

    return Editor(widget=box, value=box.value, set_value=set_value)


def one_of(name: str, title: str, tip: str, changed: Callable[[], None], items: Iterable[tuple[str, str]]) -> Editor:
    """Return a box to choose one of `items`: pairs of title and id."""
    box: QComboBox = choice(name, title, tip, items)
    box.currentIndexChanged.connect(lambda _: changed())

    def set_value(value: SettingValue) -> None:
        select(box, str(value))

    return Editor(widget=box, value=box.currentData, set_value=set_value)


def text(
    name: str, title: str, tip: str, changed: Callable[[], None], *, empty: str = "", empty_is_none: bool = False
) -> Editor:
    """Return a field for a string; `empty`: what an empty field means, as a placeholder.

    It also serves decimal numbers that are checked later.
    """
    edit: QLineEdit = line(name, title, tip)
    edit.setPlaceholderText(empty or ("none" if empty_is_none else ""))
    edit.textChanged.connect(lambda _: changed())

    def value() -> SettingValue:
        return None if empty_is_none and not edit.text() else edit.text()

    return Editor(widget=edit, value=value, set_value=lambda value: edit.setText("" if value is None else str(value)))


def number(name: str, title: str, tip: str, changed: Callable[[], None], *, empty: str) -> Editor:
    """Return a field for an optional number; `empty`: what an empty field means, as a placeholder."""
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
    """Return the entered number; a decimal comma is accepted. Return other text unchanged, to be reported later."""
    typed = typed.strip()
    if not typed:
        return None
    if typed.isdecimal() and len(typed) <= MAX_DIGITS:
        return int(typed)
    try:
        return float(typed.replace(",", "."))
    except ValueError:
        return typed
