"""The settings of a run for a comparison: the key by which runs form a group, and what of them may be shown."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.config.presets import secret_names
from core.history.setting_values import ENVIRONMENT, SEED, setting_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.schema.settings import SettingValue
    from core.schema.spec import RunSpec

HIDDEN = "(hidden)"
"""In the place of a value that looks like a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSettings:
    """All settings of a run but its name."""

    values: Mapping[str, SettingValue]
    """See `setting_values`."""
    secrets: frozenset[str] = frozenset()
    """The names whose values look like secrets."""

    @classmethod
    def of(cls, spec: RunSpec, devices: Mapping[str, Mapping[str, Any]]) -> NamedSettings:
        """Return the settings of a run. `devices`: what the run recorded of each device, by id; may be empty."""
        secrets = frozenset(f"{ENVIRONMENT}{name}" for name in secret_names(spec))
        return cls(values=setting_values(spec, devices), secrets=secrets)

    @property
    def group(self) -> str:
        """The same text for runs that differ only in the seed, the name and the identity of their devices."""
        return json.dumps({name: value for name, value in self.values.items() if name != SEED}, sort_keys=True)

    def shown(self, name: str) -> SettingValue:
        """Return a value as it may be shown; None if there is no such setting."""
        return HIDDEN if name in self.secrets else self.values.get(name)
