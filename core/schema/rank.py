"""The assignment of a rank: which devices and which role a worker has in its run.

Also loaded inside workers: standard library only, Python 3.10 syntax.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from .codec import decode


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAssignment:
    """What the launcher passes to a worker: its rank, devices and role."""

    rank: int
    world_size: int
    devices: tuple[str, ...]
    """Ids of all devices of the run."""
    own: tuple[str, ...]
    """Ids of the devices this worker computes on; none for one that only coordinates or keeps variables."""
    kind: str
    """`cpu` or `nvidia`, for all devices of the run."""
    cores: tuple[int, ...]
    """The logical cores this worker is pinned to; empty leaves the choice to the operating system."""
    target: str
    """The strategy below `core.worker`: `pytorch.ddp` for its `train`, or `pytorch.strategies:single`; empty for a
    script."""
    role: str = "worker"
    """`worker`, or `chief` or `ps` in a parameter-server run, or `fetch` (see `core.worker.main.fetch`)."""
    serves: bool = False
    """Whether it serves other workers and never ends by itself: it is terminated when they have ended."""
    addresses: tuple[str, ...] = ()
    """`host:port` by rank, for strategies whose workers meet over the network; else empty."""
    gate: int | None = None
    """The pipe on which workers wait for the process that fetches (`core.worker.main.fetch`); None if there is none."""
    host: int = 0
    """The number of its machine; 0 is that of rank 0. `devices` are those of the run on this machine."""
    hosts: int = 1
    """The number of machines."""
    meeting: str = ""
    """`host:port` at which the ranks of several machines meet; empty if all are on one machine."""
    interface: str = ""
    """The network interface over which they meet; empty if all are on one machine."""
    resumes: bool = False
    """Whether the run was trained before, which a worker on another machine cannot see."""

    @property
    def local_rank(self) -> int:
        """The number of its first device among the devices of the run on its machine."""
        return self.devices.index(self.own[0]) if self.own else 0

    def to_text(self) -> str:
        """Return the text for a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> RankAssignment:
        """Parse what `to_text` returned. Raises `ValueError`."""
        return decode(cls, json.loads(text))
