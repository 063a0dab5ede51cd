"""All abilities, except those to start runs (`core.config.abilities`).

One returns its answer, or yields the items of a stream until it is cancelled.
Each runs on a thread of its own. One that cannot do what was asked raises `ValueError`, `RunError` or `OSError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.hosts.agent import control, runs
from core.hosts.agent.clock import clock
from core.hosts.agent.devices import devices, readings

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.hosts.agent.request import Request

ABILITIES: dict[str, Callable[[Request], object]] = {
    "clock": clock,
    "devices": devices,
    "readings": readings,
    "runs": runs.runs,
    "read": runs.read,
    "request": control.request,
    "resume": control.resume,
    "rename": control.rename,
    "mark": control.mark,
    "remove": control.remove,
}
"""By the name under which a connection asks for it."""
