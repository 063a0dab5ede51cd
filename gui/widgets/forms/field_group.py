"""A group of fields under a small heading. It marks the fields that differ from their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QWidget

from core.language import tr
from core.schema.settings import SettingValue
from gui.style.theme import mark
from gui.widgets.plain_text import PlainLabel

from .editors import Editor
from .fields import form, label

LABEL_PX = 166
"""Width of labels: that of the longest one, so that the fields of groups below each other are aligned."""
CHANGED = "•"
"""Stands before the label of a changed field, so that the mark is more than a colour."""


class FieldGroup(QWidget):
    """Each editor edits one field of a spec, by name."""

    changed = Signal()

    def __init__(self, heading: str) -> None:
        super().__init__()
        self._editors: dict[str, Editor] = {}
        self._labels: dict[str, PlainLabel] = {}
        self._titles: dict[str, str] = {}
        self._defaults: dict[str, SettingValue] = {}
        self._hidden: set[str] = set()
        """Fields that the choices made elsewhere do not have."""
        self._search = ""
        self._wanted = True
        self._rows = form(self)
        self.heading = PlainLabel(heading, role="small")
        self.heading.setStyleSheet("font-weight: bold;")
        self._rows.addRow(self.heading)
        self.changed.connect(self.show_changes)

    # -- values ----------------------------------------------------------------------------------

    def values(self) -> dict[str, object]:
        """Return the visible fields by name, as entered: an invalid number stays a string."""
        return {name: value for name, value in self.remember().items() if name not in self._hidden}

    def remember(self) -> dict[str, Any]:
        """Return all fields, for the settings file."""
        return {name: editor.value() for name, editor in self._editors.items()}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Restore what `remember` returned; invalid values are ignored."""
        for name, editor in self._editors.items():
            if isinstance(kept.get(name), (bool, int, float, str)):
                editor.set_value(kept[name])

    def fill(self, values: Mapping[str, Any]) -> None:
        """Fill in the values of a spec, None included."""
        for name, editor in self._editors.items():
            if name in values:
                editor.set_value(values[name])

    # -- defaults --------------------------------------------------------------------------------

    @property
    def defaults(self) -> Mapping[str, SettingValue]:
        """The default values by name."""
        return self._defaults

    def set_defaults(self, defaults: Mapping[str, SettingValue]) -> None:
        """Set the default values. Fields that had their old default take the new one."""
        for name, editor in self._editors.items():
            if name in defaults:
                follows = name not in self._defaults or not self._differs(name)
                self._defaults[name] = defaults[name]
                if follows:
                    editor.set_value(defaults[name])
        self.show_changes()

    @property
    def wanted(self) -> bool:
        """Whether the workload has these fields."""
        return self._wanted

    def reset(self) -> None:
        """Give every field its default."""
        for name in self._defaults:
            self._editors[name].set_value(self._defaults[name])

    def overrides(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, for the settings file: the others follow theirs."""
        return {name: value for name, value in self.remember().items() if self._differs(name)}

    def changes(self) -> list[str]:
        """Return the fields that differ from their defaults, as they are shown: `Seed 3`."""
        return [
            f"{self._titles[name]} {_shown(editor)}".strip()
            for name, editor in self._editors.items()
            if name not in self._hidden and self._differs(name)
        ]

    def show_changes(self) -> None:
        """Mark the labels of the fields that differ from their defaults."""
        for name, text in self._labels.items():
            differs = self._differs(name)
            if differs is not (text.property("tone") == "accent"):
                text.setText(f"{CHANGED} {self._titles[name]}" if differs else self._titles[name])
                text.setAccessibleDescription(tr("Changed from the default") if differs else "")
                mark(text, tone="accent" if differs else "")

    def _differs(self, name: str) -> bool:
        if name not in self._defaults:
            return False  # it is about to get its default
        value, default = self._editors[name].value(), self._defaults[name]
        return not (value == default or str(value) == str(default))

    # -- rows ------------------------------------------------------------------------------------

    def show_group(self, *, wanted: bool) -> None:
        """Show the group if the workload has its fields, and if one of them matches the search."""
        self._wanted = wanted
        self.search(self._search)

    def search(self, text: str) -> bool:
        """Show only the fields whose title, group or explanation has this text; return whether there are any."""
        self._search = text
        words = text.casefold().split()
        found = [name for name in self._editors if name not in self._hidden and self._matches(name, words)]
        for name, editor in self._editors.items():
            if self._rows.isRowVisible(editor.widget) is not (name in found):
                self._rows.setRowVisible(editor.widget, name in found)
        self.setVisible(self._wanted and bool(found))
        return self._wanted and bool(found)

    def _matches(self, name: str, words: list[str]) -> bool:
        about = f"{self._titles[name]} {self.heading.text()} {name} {self._editors[name].widget.toolTip()}".casefold()
        return all(word in about for word in words)

    def _add(self, title: str, **editor: Editor) -> None:
        """Add a row of one field."""
        for name, each in editor.items():
            self._editors[name], self._titles[name] = each, title
            self._rows.addRow(label(title, each.widget, LABEL_PX), each.widget)
            self._labels[name] = self._rows.labelForField(each.widget)  # type: ignore[assignment]  # as `label` made it

    def _clear(self) -> None:
        """Remove all rows."""
        for editor in self._editors.values():
            self._rows.removeRow(editor.widget)
        self._editors, self._labels, self._titles, self._defaults = {}, {}, {}, {}

    def _show_row(self, name: str, *, shown: bool) -> None:
        """Show or hide the row of this field; `values` omits a hidden field."""
        if shown is (name in self._hidden):
            self._hidden ^= {name}
            self.search(self._search)


def _shown(editor: Editor) -> str:
    """Return the value of a field as the user sees it."""
    widget = editor.widget
    if isinstance(widget, QComboBox):
        return widget.currentText()
    if isinstance(widget, QCheckBox):
        return tr("on") if widget.isChecked() else tr("off")
    value = editor.value()
    return tr("empty") if value is None or value == "" else str(value)
