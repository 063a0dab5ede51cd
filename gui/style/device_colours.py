"""Colours and labels of devices, the same in the list and in every plot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from core.devices.device import Device
from core.runs.facts.run_facts import RunFacts

from .contrast import contrast, legible, mixed, parse
from .theme import Theme

FAINT_SHARE = 0.38


def device_colours(present: Sequence[Device], others: Iterable[str], theme: Theme) -> dict[str, str]:
    """Return `#rrggbb` by device id, in the order of the rows; absent devices in `others` follow."""
    ids = [device.id for device in present]
    ids += [device_id for device_id in others if device_id not in ids]
    return {device_id: theme.device_colour(number) for number, device_id in enumerate(ids)}


def faint(colour: str, theme: Theme, share: float = FAINT_SHARE) -> str:
    """Return a colour, `#rrggbb`, that hardly stands out from a panel: of a device that is not ticked.

    With strong contrast it stands out as much as every mark must.
    """
    ground, whole = parse(theme.panel), parse(colour)
    found = mixed(whole, ground, share)
    while theme.is_strong and share < 1 and contrast(found, ground) < theme.mark_contrast:
        share += 0.05
        found = mixed(whole, ground, min(share, 1.0))
    return f"#{bytes(found).hex()}"


def faint_text(theme: Theme) -> str:
    """Return the colour, `#rrggbb`, of the label of a device that is not ticked: as weak as a text may be."""
    return f"#{bytes(legible(parse(theme.disabled), parse(theme.panel), theme.text_contrast)).hex()}"


def device_labels(present: Sequence[Device], facts: RunFacts) -> dict[str, str]:
    """Return labels by device id; an absent device keeps its label from the time of the run."""
    then: Mapping[str, Mapping[str, object]] = facts.devices
    labels = {device_id: str(known.get("label") or device_id) for device_id, known in then.items()}
    return labels | {device.id: device.label for device in present}
