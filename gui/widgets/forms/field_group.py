"""A group of fields under a small heading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from gui.widgets.plain_text import PlainLabel

from .fields import form, label, side_by_side

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .editors import Editor

HEADING_PX = 24


class FieldGroup(QWidget):
    """Each editor edits one field of a spec, by name."""

    changed = Signal()

    def __init__(self, heading: str) -> None:
        super().__init__()
        self._editors: dict[str, Editor] = {}
        self._hidden: set[str] = set()
        self._rows = form(self)
        title = PlainLabel(heading)
        title.setProperty("role", "small")
        title.setStyleSheet("font-weight: bold;")
        title.setMinimumHeight(HEADING_PX)
        self._rows.addRow(title)

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

    def _add(self, title: str, *, shares: Sequence[int] = (), **editors: Editor) -> None:
        """Add a row of one or several fields with shares of its width; its label focuses the first."""
        self._editors.update(editors)
        widgets = [editor.widget for editor in editors.values()]
        row = widgets[0] if len(widgets) == 1 else side_by_side(*widgets, shares=shares)
        self._rows.addRow(label(title, widgets[0]), row)

    def _show_row(self, name: str, *, shown: bool) -> None:
        """Show or hide the row of this field; `values` omits a hidden field."""
        self._rows.setRowVisible(self._editors[name].widget, shown)
        self._hidden.discard(name)
        if not shown:
            self._hidden.add(name)

    def _set_defaults(self, defaults: object) -> None:
        """Show the default values of a spec."""
        for name, editor in self._editors.items():
            editor.set_value(getattr(defaults, name))
