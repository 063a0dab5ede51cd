"""Keep other users of the cluster off the devices of a node while a run uses them: a placement group of the driver.

Ray counts devices and does not let a program choose which ones, so a run that uses a GPU of a node keeps all GPUs of
that node. Like the actor, a placement group ends with its driver, however that ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.hosts.carriers.ray.reports import Report, ReportError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.devices.device import Device

RESERVE_S = 5.0
"""Longest wait for what others use: they may just be ending."""
NODE_LABEL = "ray.io/node-id"
CPU, GPU = "CPU", "GPU"
"""The names of Ray's resources."""


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


def reserve(node: Mapping[str, Any], wanted: Wanted) -> None:
    """Reserve it on a node, as Ray describes that, until this process ends. Raises `ReportError` if others use it."""
    from ray.util.placement_group import placement_group

    resources = wanted.resources(node["Resources"])
    if not resources:
        return
    group = placement_group([resources], bundle_label_selector=[{NODE_LABEL: str(node["NodeID"])}])
    if not group.wait(RESERVE_S):
        needed = ", ".join(f"{amount:g} {name}" for name, amount in resources.items())
        raise ReportError(Report(why="busy", line=needed))
