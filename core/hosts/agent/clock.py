"""The time of this machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.hosts.agent.request import Request


def clock(request: Request) -> dict[str, float]:
    """Return the time of this machine, in unix seconds."""
    del request
    return {"time": time.time()}
