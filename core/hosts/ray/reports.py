"""What a driver of Ray is given, and what it says when it cannot go on: one line of standard error."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.devices.device import Device

AUTO = "auto"
"""The cluster that RAY_ADDRESS names, or the one that was started on this machine."""
PEER = "TRAINYARD_PEER"
"""The variable with the address of the driver's machine, for the agent."""
CPU, GPU = "CPU", "GPU"
"""The names of Ray's resources."""
MARK = "trainyard-ray: "
"""What tells a report from what Ray writes."""
STATUS = 3
"""The exit status of a driver that has written a report."""
MAX_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run needs of a node."""

    cores: int
    gpus: bool

    @staticmethod
    def of(devices: Sequence[Device]) -> Wanted:
        """Return what a run on these devices needs."""
        return Wanted(sum(len(each.cores) for each in devices), any(not each.cores for each in devices))

    def words(self) -> tuple[str, str]:
        """Return it as two words of a command line."""
        return str(self.cores), str(int(self.gpus))

    @staticmethod
    def from_words(cores: str, gpus: str) -> Wanted:
        """Return what the words mean."""
        return Wanted(int(cores), bool(int(gpus)))

    def resources(self, total: Mapping[str, float]) -> dict[str, float]:
        """Return it in Ray's resources, of which the node has so many. Those that the node lacks are left out."""
        asked = {CPU: min(self.cores, total.get(CPU, 0)), GPU: total.get(GPU, 0) if self.gpus else 0}
        return {name: amount for name, amount in asked.items() if amount}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Why the driver has ended."""

    why: str
    """The name of a row of `core.hosts.ray_carrier.ROWS`."""
    line: str = ""
    """What Ray or the system says."""
    cluster: str = ""
    """What `auto` has led to."""
    nodes: str = ""
    """The nodes that the cluster has."""


class ReportError(Exception):
    """The driver cannot go on."""

    def __init__(self, report: Report) -> None:
        super().__init__(report.why)
        self.report = report


def written(report: Report) -> str:
    """Return the line of a report."""
    fields = {name: value[:MAX_CHARACTERS] for name, value in asdict(report).items()}
    return f"{MARK}{json.dumps(fields)}\n"


def find(errors: str) -> Report | None:
    """Return the last report in what a driver wrote to standard error; None if there is none."""
    for line in reversed(errors.splitlines()):
        if line.startswith(MARK):
            try:
                return Report(**json.loads(line.removeprefix(MARK)))
            except (ValueError, TypeError):
                return None
    return None
