"""Contrast of two colours, and the colours and labels of devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from core.devices.device import Device
from core.runs.facts import RunFacts
from gui.base.theme import Theme

Rgb = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""
STEPS = 10
"""Colours that are tried between a colour and black or white."""


def parse(colour: str) -> Rgb:
    """Return `#rrggbb` as numbers."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def contrast(one: Rgb, other: Rgb) -> float:
    """Return the contrast ratio of WCAG 2.1, from 1 to 21."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def mixed(one: Rgb, other: Rgb, share: float) -> Rgb:
    """Return a mixture with this share of the first colour."""
    red, green, blue = (round(share * a + (1 - share) * b) for a, b in zip(one, other, strict=True))
    return red, green, blue


@lru_cache(maxsize=4096)
def legible(foreground: Rgb, background: Rgb, least: float) -> Rgb:
    """Return the foreground, made lighter or darker until its contrast to the background is at least `least`."""
    white, black = (255, 255, 255), (0, 0, 0)
    pole = white if contrast(white, background) > contrast(black, background) else black
    for step in range(STEPS):
        tried = mixed(pole, foreground, step / STEPS)
        if contrast(tried, background) >= least:
            return tried
    return pole


def _luminance(colour: Rgb) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (each / 255 for each in colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


FAINT_SHARE = 0.38


def device_colours(present: Sequence[Device], others: Iterable[str], theme: Theme) -> dict[str, str]:
    """Return `#rrggbb` by device id, in the order of the rows; absent devices in `others` follow."""
    ids = [device.id for device in present]
    ids += [device_id for device_id in others if device_id not in ids]
    return {device_id: theme.device_colour(number) for number, device_id in enumerate(ids)}


def faint(colour: str, theme: Theme, share: float = FAINT_SHARE) -> str:
    """Return a colour, `#rrggbb`, that hardly stands out from a panel: of what is behind the rest.

    With strong contrast it stands out as much as every mark must.
    """
    ground, whole = parse(theme.panel), parse(colour)
    found = mixed(whole, ground, share)
    while theme.is_strong and share < 1 and contrast(found, ground) < theme.mark_contrast:
        share += 0.05
        found = mixed(whole, ground, min(share, 1.0))
    return f"#{bytes(found).hex()}"


def device_labels(present: Sequence[Device], facts: RunFacts) -> dict[str, str]:
    """Return labels by device id; an absent device keeps its label from the time of the run."""
    then: Mapping[str, Mapping[str, object]] = facts.devices
    labels = {device_id: str(known.get("label") or device_id) for device_id, known in then.items()}
    return labels | {device.id: device.label for device in present}
