"""Colours and labels of devices, the same in the list and in every plot."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from core.devices.device import Device
    from core.runs.facts import RunFacts

    from .theme import Theme

FAINT_SHARE = 0.38


def device_colours(present: Sequence[Device], others: Iterable[str], theme: Theme) -> dict[str, str]:
    """Return `#rrggbb` by device id, in the order of the rows; absent devices in `others` follow."""
    ids = [device.id for device in present]
    ids += [device_id for device_id in others if device_id not in ids]
    return {device_id: theme.device_colour(number) for number, device_id in enumerate(ids)}


def faint(colour: str, ground: str) -> str:
    """Return a colour, `#rrggbb`, that hardly stands out from its ground: of a device that is not ticked."""
    pairs = zip(bytes.fromhex(colour[1:]), bytes.fromhex(ground[1:]), strict=True)
    return "#" + bytes(round(FAINT_SHARE * one + (1 - FAINT_SHARE) * other) for one, other in pairs).hex()


def device_labels(present: Sequence[Device], facts: RunFacts) -> dict[str, str]:
    """Return labels by device id; an absent device keeps its label from the time of the run."""
    then: Mapping[str, Mapping[str, object]] = facts.devices
    labels = {device_id: str(known.get("label") or device_id) for device_id, known in then.items()}
    return labels | {device.id: device.label for device in present}
