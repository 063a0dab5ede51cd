"""Which devices can be ticked, and why the others cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from .device_rows import DeviceRow


def obstacles(rows: Sequence[DeviceRow], ticked: Collection[str]) -> dict[str, str]:
    """By device id, why it cannot be ticked now, in a sentence; those that can are not in it.

    A device that is ticked is never in the way of itself: nothing is unticked behind anybody's back.
    """
    chosen = [row for row in rows if row.id in ticked]
    found = {row.id: row.lost or row.blocked or _beside_mig(row, chosen) for row in rows}
    return {device: reason for device, reason in found.items() if reason}


def _beside_mig(row: DeviceRow, chosen: Sequence[DeviceRow]) -> str:
    """A MIG device is ticked alone or not at all: see `core.config.validation`."""
    others = [each for each in chosen if each.id != row.id]
    if row in chosen or not others or not (row.is_mig or any(each.is_mig for each in others)):
        return ""
    which = f"{others[0].label} is ticked: untick that one" if len(others) == 1 else "Others are ticked: untick them"
    return f"{which} first. A process uses one MIG device at most, and nothing beside it."
