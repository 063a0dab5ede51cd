"""The place of one worker among the workers of its run.

Also loaded inside workers: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAssignment:
    """Where one worker stands among the workers of its run: what the launcher tells it."""

    rank: int
    world_size: int
    devices: tuple[str, ...]
    """Ids of all devices of the run."""
    own: tuple[str, ...]
    """Of these, the ones that this worker computes on; none for one that only coordinates or keeps variables."""
    kind: str
    """`cpu` or `nvidia`: what all of these devices are."""
    cores: tuple[int, ...]
    """The logical cores this worker is pinned to; empty leaves the choice to the operating system."""
    target: str
    """The strategy's module below `core.worker`, such as `pytorch.ddp`; none where a script is started."""
    role: str = "worker"
    """`worker`; among the processes of a parameter server strategy also `chief` and `ps`."""
    addresses: tuple[str, ...] = ()
    """`host:port` by rank, for strategies whose workers meet over the network; else empty."""

    def to_text(self) -> str:
        """For a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> RankAssignment:
        """What `to_text` wrote."""
        data = json.loads(text)
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
        }
        return cls(**values)
