"""Groups of fields that are made from the rows of settings."""

from __future__ import annotations

from dataclasses import asdict

from core.language import tr
from core.schema.setting import settings_of
from core.schema.settings import CHECKPOINTS, COUNTED, STOP, Checkpoints, StopTimeouts
from core.schema.spec import SCRIPT, RunSpec
from core.text import capital

from . import editors
from .field_group import FieldGroup


class SettingsForm(FieldGroup):
    """The settings of one group of a dataclass. Hides those that a strategy lacks."""

    def __init__(self, owner: type, group: str) -> None:
        super().__init__(capital(tr(group)))
        self._settings = {name: row for name, row in settings_of(owner).items() if row.group == group}
        for name, row in self._settings.items():
            self._add(tr(row.title), **{name: editors.of_setting(row, self.changed.emit)})
        self.set_defaults({name: row.default for name, row in self._settings.items()})

    def chosen(self) -> dict[str, object]:
        """Return the values of the visible fields; an empty field means its default."""
        values = {name: self.defaults[name] if value is None else value for name, value in self.values().items()}
        return {name: value for name, value in values.items() if value is not None}

    def show_strategy(self, framework: str, strategy: str = "") -> None:
        """Show the settings that this framework and strategy have; `script` is the framework of a script."""
        for name, row in self._settings.items():
            self._show_row(name, shown=row.is_for(framework, strategy))


class CheckpointForm(SettingsForm):
    """Fields of `Checkpoints`. Hides the interval where nothing is counted."""

    def __init__(self) -> None:
        super().__init__(Checkpoints, CHECKPOINTS)
        self.changed.connect(self._on_unit_changed)
        self._on_unit_changed()

    def _on_unit_changed(self) -> None:
        self._show_row("every", shown=self._editors["unit"].value() in COUNTED)


class StopForm(SettingsForm):
    """Fields of `StopTimeouts`. They are empty by default, since a script has other defaults than a recipe."""

    def __init__(self) -> None:
        super().__init__(StopTimeouts, STOP)
        self.set_defaults(dict.fromkeys(self._settings))

    def fill_from(self, spec: RunSpec) -> None:
        """Fill in the timeouts of a run or a preset that are not the usual ones."""
        usual = asdict(StopTimeouts.usual(is_script=spec.framework == SCRIPT))
        timeouts = asdict(spec.stop_timeouts)
        self.fill({name: None if timeouts[name] == usual[name] else timeouts[name] for name in usual})
