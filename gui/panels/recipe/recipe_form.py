"""The form for the settings of a recipe: the keyword arguments of its functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from gui.widgets.forms import editors
from gui.widgets.forms.fields import MAX_NUMBER, form, label

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from core.catalog.recipes import RecipeFile, Setting
    from core.schema.settings import SettingValue
    from gui.widgets.forms.editors import Editor


class RecipeForm(QWidget):
    """One row per setting. Keeps the values of each recipe and restores them with it."""

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
        """Show the settings of this recipe; None if it cannot be read. Does nothing if the settings are the same."""
        settings = recipe.settings if recipe else ()
        if (reference, settings) == (self._recipe, self._settings):
            return
        self._keep()
        self._recipe, self._settings, self._editors = reference, settings, {}
        while self._rows.rowCount():
            self._rows.removeRow(0)
        self._editors = {
            setting.name: _editor(setting, recipe.name, self.changed.emit) for setting in settings if recipe
        }
        kept = self._kept.get(reference, {})
        for name, field in self._editors.items():
            if name in kept:
                field.set_value(kept[name])
            self._rows.addRow(label(name, field.widget), field.widget)
        self.setVisible(bool(self._editors))

    def values(self) -> dict[str, SettingValue]:
        """Return the settings as entered; an invalid value stays a string."""
        return {name: field.value() for name, field in self._editors.items()}

    def remember(self) -> dict[str, dict[str, SettingValue]]:
        """Return the changed settings by recipe."""
        self._keep()
        return self._kept

    def restore(self, kept: Mapping[str, object]) -> None:
        """Take what `remember` returned; `show_recipe` shows it."""
        self._recipe, self._settings, self._editors = "", (), {}
        self._kept = {
            recipe: {str(name): value for name, value in values.items() if _is_plain(value)}
            for recipe, values in kept.items()
            if isinstance(values, dict)
        }

    def _keep(self) -> None:
        """Keep only values that differ from the defaults: an edited recipe may have better defaults."""
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


def _editor(setting: Setting, recipe: str, changed: Callable[[], None]) -> Editor:
    """Return a field of the type of the default, which it shows. It calls `changed` at each change."""
    default = setting.default
    tip = f"Setting of {recipe}, default {default!r}"
    name = f"setting-{setting.name}"
    if isinstance(default, bool):
        field = editors.check(name, setting.name, tip, changed)
    elif isinstance(default, int) and abs(default) <= MAX_NUMBER:
        field = editors.integer(name, setting.name, tip, changed)
    else:
        field = editors.text(name, setting.name, tip, changed, empty_is_none=default is None)
    field.set_value(default)
    return field
