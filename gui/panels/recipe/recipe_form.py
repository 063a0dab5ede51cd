"""A form for the settings of a recipe: the keyword arguments of its functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from gui.widgets.forms.fields import form, label

from .setting_editors import editor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.catalog.recipes import RecipeFile, Setting
    from core.schema.settings import SettingValue
    from gui.widgets.forms.editors import Editor


class RecipeForm(QWidget):
    """One row a setting. What was set for a recipe comes back with it."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._rows = form(self)
        self._editors: dict[str, Editor] = {}
        self._settings: tuple[Setting, ...] = ()
        self._recipe = ""
        self._kept: dict[str, dict[str, SettingValue]] = {}
        self.hide()

    def show_recipe(self, reference: str, recipe: RecipeFile | None) -> None:
        """Show the settings of this recipe; None where it cannot be read. The same settings again change nothing."""
        settings = recipe.settings if recipe else ()
        if (reference, settings) == (self._recipe, self._settings):
            return
        self._keep()
        self._recipe, self._settings, self._editors = reference, settings, {}
        while self._rows.rowCount():
            self._rows.removeRow(0)
        self._editors = {
            setting.name: editor(setting, recipe.name, self.changed.emit) for setting in settings if recipe
        }
        kept = self._kept.get(reference, {})
        for name, made in self._editors.items():
            if name in kept:
                made.set_value(kept[name])
            self._rows.addRow(label(name, made.widget), made.widget)
        self.setVisible(bool(self._editors))

    def values(self) -> dict[str, SettingValue]:
        """The settings as they are in the form; one that does not fit stays a text."""
        return {name: made.value() for name, made in self._editors.items()}

    def remember(self) -> dict[str, dict[str, SettingValue]]:
        """What was set, by recipe."""
        self._keep()
        return self._kept

    def restore(self, kept: Mapping[str, object]) -> None:
        """Take over what was remembered; it shows with the next `show_recipe`."""
        self._recipe, self._settings, self._editors = "", (), {}
        self._kept = {
            recipe: {str(name): value for name, value in values.items() if _is_plain(value)}
            for recipe, values in kept.items()
            if isinstance(values, dict)
        }

    def _keep(self) -> None:
        """Only what differs from the defaults: a recipe may be given better ones."""
        defaults = {setting.name: setting.default for setting in self._settings}
        changed = {name: value for name, value in self.values().items() if not _same(value, defaults[name])}
        if changed:
            self._kept[self._recipe] = changed
        else:
            self._kept.pop(self._recipe, None)


def _same(value: SettingValue, default: SettingValue) -> bool:
    return value == default or (isinstance(value, str) and value == str(default))


def _is_plain(value: object) -> bool:
    return isinstance(value, (bool, int, float, str, type(None)))
