"""A field for one setting of a recipe, after the kind of its default."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gui.widgets.forms import editors
from gui.widgets.forms.fields import MOST

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.catalog.recipes import Setting
    from gui.widgets.forms.editors import Editor


def editor(setting: Setting, recipe: str, changed: Callable[[], None]) -> Editor:
    """The field for a setting; it shows the default, and calls `changed` when it is another."""
    default = setting.default
    tip = f"Setting of {recipe}; its default is {default!r}"
    name = f"setting-{setting.name}"
    if isinstance(default, bool):
        made = editors.check(name, setting.name, tip, changed)
    elif isinstance(default, int) and abs(default) <= MOST:
        made = editors.whole(name, setting.name, tip, changed)
    else:
        made = editors.text(name, setting.name, tip, changed, empty_is_none=default is None)
    made.set_value(default)
    return made
