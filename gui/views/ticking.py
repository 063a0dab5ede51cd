"""Which devices can be ticked, and why the others cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gui.views.devices import DeviceRow

MIG = "MIG-"
"""How the id of a part of a GPU begins that was split by NVIDIA's MIG."""


def obstacles(rows: Sequence[DeviceRow], ticked: Collection[str]) -> dict[str, str]:
    """By device id, why it cannot be ticked now, in a sentence; those that can are not in it.

    A device that is ticked is never in the way of itself: nothing is unticked behind anybody's back.
    """
    chosen = next((row for row in rows if row.id.startswith(MIG) and row.id in ticked), None)
    found = {row.id: row.lost or row.blocked or _other_mig(row, chosen) for row in rows}
    return {device: reason for device, reason in found.items() if reason}


def _other_mig(row: DeviceRow, chosen: DeviceRow | None) -> str:
    if chosen is None or row.id == chosen.id or not row.id.startswith(MIG):
        return ""
    return f"A process can use one MIG instance, and {chosen.label} is ticked: untick that one first."
