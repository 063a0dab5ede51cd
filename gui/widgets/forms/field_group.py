"""A group of fields under a small heading: what the parts of a long form are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QWidget

from .fields import form, label, side_by_side

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .editors import Editor

HEADING_PX = 24


class FieldGroup(QWidget):
    """Each field stands for one field of a spec, by its name."""

    changed = Signal()

    def __init__(self, heading: str) -> None:
        super().__init__()
        self._editors: dict[str, Editor] = {}
        self._hidden: set[str] = set()
        self._rows = form(self)
        title = QLabel(heading)
        title.setProperty("role", "small")
        title.setStyleSheet("font-weight: bold;")
        title.setMinimumHeight(HEADING_PX)
        self._rows.addRow(title)

    def values(self) -> dict[str, object]:
        """By the field's name, as they are in the form: what was typed and is no number stays a text."""
        return {name: value for name, value in self.remember().items() if name not in self._hidden}

    def remember(self) -> dict[str, Any]:
        """All of them, for another day."""
        return {name: editor.value() for name, editor in self._editors.items()}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Set again what was remembered; what does not fit is left out."""
        for name, editor in self._editors.items():
            if isinstance(kept.get(name), (bool, int, float, str)):
                editor.set_value(kept[name])

    def fill(self, values: Mapping[str, Any]) -> None:
        """Set what a spec has, also what is None there."""
        for name, editor in self._editors.items():
            if name in values:
                editor.set_value(values[name])

    def _add(self, title: str, *, shares: Sequence[int] = (), **editors: Editor) -> None:
        """A row of one field, or of several side by side, with shares of its width; its label leads to the first."""
        self._editors.update(editors)
        widgets = [editor.widget for editor in editors.values()]
        row = widgets[0] if len(widgets) == 1 else side_by_side(*widgets, shares=shares)
        self._rows.addRow(label(title, widgets[0]), row)

    def _show_row(self, name: str, *, shown: bool) -> None:
        """Show the row of this field; or hide it, and leave its value to the default."""
        self._rows.setRowVisible(self._editors[name].widget, shown)
        self._hidden.discard(name)
        if not shown:
            self._hidden.add(name)

    def _set_usual(self, usual: object) -> None:
        """Show the values of a spec as it is by default."""
        for name, editor in self._editors.items():
            editor.set_value(getattr(usual, name))
