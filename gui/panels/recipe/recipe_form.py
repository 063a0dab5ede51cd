"""The form for the settings of a recipe: the keyword arguments of its functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from core.catalog.recipes import RecipeFile, Setting
from core.language import tr, tr_noop
from core.schema.settings import SettingValue
from gui.style.formatting import setting_title
from gui.widgets.forms import editors
from gui.widgets.forms.editors import Editor
from gui.widgets.forms.field_group import FieldGroup
from gui.widgets.forms.fields import MAX_NUMBER

HEADING = tr_noop("Workload")


class RecipeForm(FieldGroup):
    """One row per setting. Keeps the values of each recipe and restores them with it."""

    def __init__(self) -> None:
        super().__init__(tr(HEADING))
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
        self._recipe, self._settings = reference, settings
        self._clear()
        kept = self._kept.get(reference, {})
        name = recipe.name if recipe else ""
        for setting in settings:
            self._add(setting_title(setting.name), **{setting.name: _editor(setting, name, self.changed.emit)})
        self.set_defaults({setting.name: setting.default for setting in settings})
        for each, field in self._editors.items():
            if each in kept:
                field.set_value(kept[each])
        self.heading.setText(f"{tr(HEADING)} {name}".strip())
        self.show_changes()
        self.search(self._search)

    def settings(self) -> dict[str, SettingValue]:
        """Return the settings as entered; an invalid value stays a string."""
        return self.remember()

    def remember_all(self) -> dict[str, dict[str, SettingValue]]:
        """Return the changed settings by recipe, for the settings file."""
        self._keep()
        return self._kept

    def restore_all(self, kept: Mapping[str, object]) -> None:
        """Take what `remember_all` returned; `show_recipe` shows it."""
        plain = {
            recipe: {str(name): value for name, value in values.items() if _is_plain(value)}
            for recipe, values in kept.items()
            if isinstance(values, dict)
        }
        if plain != self.remember_all():  # otherwise the rows are as they should be, and stay
            self._recipe, self._settings = "", ()
            self._clear()
            self._kept = plain

    def _keep(self) -> None:
        """Keep only values that differ from the defaults: an edited recipe may have better defaults."""
        changed = {name: value for name, value in self.remember().items() if self._differs(name)}
        if changed:
            self._kept[self._recipe] = changed
        else:
            self._kept.pop(self._recipe, None)

    def _differs(self, name: str) -> bool:
        """Return whether a value is another one than the default: here an empty text is a value."""
        if name not in self._defaults:
            return False  # it is about to get its default
        value, default = self._editors[name].value(), self._defaults[name]
        return not (value == default or (isinstance(value, str) and value == str(default)))


def _is_plain(value: object) -> bool:
    return isinstance(value, (bool, int, float, str, type(None)))


def _editor(setting: Setting, recipe: str, changed: Callable[[], None]) -> Editor:
    """Return a field of the type of the default, which it shows. It calls `changed` at each change."""
    default = setting.default
    tip = tr("Setting {name} of {recipe}, default {default!r}", name=setting.name, recipe=recipe, default=default)
    name, title = f"setting-{setting.name}", setting_title(setting.name)
    if isinstance(default, bool):
        field = editors.check(name, title, tip, changed)
    elif isinstance(default, int) and abs(default) <= MAX_NUMBER:
        field = editors.integer(name, title, tip, changed)
    else:
        empty = tr("default") if default == "" else ""
        field = editors.text(name, title, tip, changed, empty=empty, empty_is_none=default is None)
    field.set_value(default)
    return field
