"""The companions of a run: what the rooms add to its supervision. A room joins with a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.devices.host_names import devices_here
from core.hosts.parts.head import Head
from core.notifications.start import Notifier
from core.runs.part import read_part

if TYPE_CHECKING:
    from pathlib import Path

    from core.queue.claims import Claims
    from core.schema.spec import RunSpec
    from core.supervisor.companion import Companion


def companions_of(run_dir: Path, spec: RunSpec, claims: Claims) -> list[Companion]:
    """Return the companions of a run in the order in which they are called.

    Raises `ValueError` for a damaged part of a run. Packages that few runs need are imported here.
    """
    found: list[Companion] = []
    part = read_part(run_dir)
    if spec.script is not None and part is None:  # the head of a part reads what its ranks print
        from core.metrics.process import MetricsProcess

        found.append(MetricsProcess(run_dir, spec))
    if len(devices_here(spec.devices)) < len(spec.devices):
        from core.hosts.parts.run_hosts import RunHosts

        found.append(RunHosts(run_dir, spec))
    found.append(claims)
    found.append(Notifier(run_dir) if part is None else Head(run_dir, part))  # the head tells the user of the run
    return found
