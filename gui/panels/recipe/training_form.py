"""The settings of all recipes: epochs, batch size and learning rate in one row, the others in groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QLineEdit, QWidget

from core.catalog import frameworks
from core.language import tr
from core.schema.setting import settings_of
from core.schema.settings import TRAINING, Training
from gui.widgets.forms.editors import MAX_CHARACTERS, Editor, of_setting, typed_number
from gui.widgets.forms.fields import side_by_side
from gui.widgets.forms.settings_form import SettingsForm
from gui.widgets.layouts import vbox


class TrainingForm(QWidget):
    """Epochs, batch size and learning rate; `groups` has the other settings and is laid out elsewhere."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        rows, changed = settings_of(Training), self.changed.emit
        self._numbers: dict[str, Editor] = {name: of_setting(rows[name], changed) for name in ("epochs", "batch_size")}
        for name, editor in self._numbers.items():
            editor.set_value(rows[name].default)
        rate = of_setting(rows["learning_rate"], changed).widget
        assert isinstance(rate, QLineEdit)
        self._rate = rate
        self._recipe_rate = ""
        groups = dict.fromkeys(row.group for row in rows.values() if row.group != TRAINING)
        self.groups = tuple(SettingsForm(Training, group) for group in groups)
        self._lay_out()
        for group in self.groups:
            group.changed.connect(self.changed)

    def values(self) -> dict[str, object]:
        """Return the fields of `Training` as entered: a learning rate that is no number stays a string."""
        others = {name: value for group in self.groups for name, value in group.values().items()}
        return {**self._typed_numbers(), "learning_rate": typed_number(self._rate.text()), **others}

    def offer_rate(self, rate: float | None) -> None:
        """Fill in the recipe's learning rate, unless the user entered another. None: the recipe does not state it."""
        text = "" if rate is None else f"{rate:g}"
        unchanged = self._rate.text().strip() in {"", self._recipe_rate}
        self._recipe_rate = text
        self._rate.setPlaceholderText(text or tr("recipe"))
        if unchanged:
            self._rate.setText(text)

    def show_strategy(self, framework: str, strategy: str) -> None:
        """Show the settings that this framework and strategy have."""
        for group in self.groups:
            group.show_strategy(framework, strategy)
        compiler = frameworks.framework(framework).compiler
        for box in (each for group in self.groups for each in group.findChildren(QCheckBox, "compileBox")):
            box.setText(compiler)
            box.setAccessibleName(tr("Compile ({compiler})", compiler=compiler))

    def remember(self) -> dict[str, Any]:
        """Return what the user set, for the settings file."""
        rate = self._rate.text().strip()
        others = {name: value for group in self.groups for name, value in group.remember().items()}
        return {**self._typed_numbers(), "learning_rate": None if rate == self._recipe_rate else rate, **others}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Restore what `remember` returned; invalid values are ignored."""
        for name, editor in self._numbers.items():
            editor.set_value(values.get(name))
        if isinstance(values.get("learning_rate"), str):
            self._rate.setText(values["learning_rate"][:MAX_CHARACTERS])
        for group in self.groups:
            group.restore(values)

    def fill(self, values: Mapping[str, Any]) -> None:
        """Fill in the values of a spec, None included."""
        for name, editor in self._numbers.items():
            editor.set_value(values[name])
        rate = values["learning_rate"]
        self._rate.setText(
            "" if rate is None else self._recipe_rate if rate == typed_number(self._recipe_rate) else str(rate)
        )
        for group in self.groups:
            group.fill(values)

    def _typed_numbers(self) -> dict[str, object]:
        return {name: editor.value() for name, editor in self._numbers.items()}

    def _lay_out(self) -> None:
        boxes = [editor.widget for editor in self._numbers.values()]
        vbox(self, side_by_side(*boxes, self._rate))
        self._rate.setStyleSheet("QLineEdit { padding: 5px 6px; }")
        self.setFocusProxy(boxes[0])
