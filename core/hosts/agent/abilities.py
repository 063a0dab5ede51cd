"""The table of what an agent can be asked for; `core.config` has further tables with the start of runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from core.hosts.agent import control, devices, runs

if TYPE_CHECKING:
    from core.hosts.agent.server import Abilities, Request


def clock(request: Request) -> dict[str, float]:
    """Return the time of this machine, in unix seconds."""
    del request
    return {"time": time.time()}


ABILITIES: Abilities = {
    "clock": clock,
    "devices": devices.devices,
    "readings": devices.readings,
    "runs": runs.runs,
    "read": runs.read,
    "request": control.request,
    "resume": control.resume,
    "rename": control.rename,
    "mark": control.mark,
    "remove": control.remove,
}
