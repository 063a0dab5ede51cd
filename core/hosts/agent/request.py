"""One request of a connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an ability is asked for."""

    runs_root: Path
    terms: Mapping[str, Any] = field(default_factory=dict)
    peer: str = ""
    """The address from which the other machine has connected; empty if the carrier does not tell."""
    cancelled: Event = field(default_factory=Event)
    """Set when the stream is no longer wanted, or the agent ends."""
