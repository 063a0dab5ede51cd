"""What a driver of Ray says when it cannot go on: one line of standard error."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

AUTO = "auto"
"""The cluster that RAY_ADDRESS names, or the one that was started on this machine."""
PEER = "TRAINYARD_PEER"
"""The variable with the address of the driver's machine, for the agent."""
MARK = "trainyard-ray: "
"""What tells a report from what Ray writes."""
STATUS = 3
"""The exit status of a driver that has written a report."""
MAX_CHARACTERS = 2000


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
