"""The names of devices as users read them. Stored names are English."""

from __future__ import annotations

import re

from core.language import tr_plural

WITH_CORES = re.compile(r"(?P<model>.*), (?P<count>\d{1,6}) cores?", re.DOTALL)
"""The name of a CPU device: see `core.devices.cpu`."""
BETWEEN_KINDS, TIMES = " + ", " × "
"""Between kinds of devices, and between their number and kind: see `core.history.setting_values.device_text`."""


def shown_name(name: str) -> str:
    """Return the name of a device, or of several kinds with their numbers, in the language in use."""
    return BETWEEN_KINDS.join(map(_shown, name.split(BETWEEN_KINDS)))


def _shown(name: str) -> str:
    found = WITH_CORES.fullmatch(name)
    if found is None:
        return name
    return tr_plural("{model}, {count} core", "{model}, {count} cores", int(found["count"]), model=found["model"])
