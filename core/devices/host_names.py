"""Names of hosts, and of devices on them: `HOST/cpu:0` or `HOST/GPU-...`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from core.devices.device import ASLEEP_PREFIX, LABEL_SEPARATOR, Device, Sample
from core.devices.kinds import KINDS
from core.language import tr

SEPARATOR = "/"
VALID = re.compile(r"[^\W_][\w.-]{0,62}")
DEVICE_PREFIXES = tuple(prefix.lower() for kind in KINDS for prefix in (*kind.id_prefixes, "gpu:", ASLEEP_PREFIX))
"""How ids and short names of devices begin, in lower case."""


def name_problem(name: str) -> str:
    """Return why a host cannot have this name; the empty string if it can."""
    if VALID.fullmatch(name):
        return ""
    return tr(
        "A host cannot be named {name!r}. Use at most 63 letters, digits, dots, - and _, with a letter or digit first.",
        name=name,
    )


def full_name(host: str, device: str) -> str:
    """Return the name of a device of a host, from the device's own id or short name."""
    return f"{host}{SEPARATOR}{device}"


def devices_here(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of devices that are on this machine, in their order."""
    return tuple(name for name in names if split_name(name) is None)


def split_name(name: str) -> tuple[str, str] | None:
    """Return host and device of a `full_name`; None for a device of this machine.

    The ids of MIG devices of old drivers have a slash, too: `MIG-GPU-.../1/0`.
    """
    host, separator, device = name.partition(SEPARATOR)
    return (host, device) if separator and device.lower().startswith(DEVICE_PREFIXES) else None


def own_id(name: str) -> str:
    """Return the id of a device on its own machine: `cpu:0` for `node2/cpu:0`, and `cpu:0` for `cpu:0`."""
    parts = split_name(name)
    return name if parts is None else parts[1]


def device_here(host: str, device: Device) -> Device:
    """Return a device of a host with an id and a label that name the host."""
    return replace(device, id=full_name(host, device.id), label=f"{host}{LABEL_SEPARATOR}{device.label}")


def sample_here(host: str, sample: Sample, offset_s: float = 0.0) -> Sample:
    """Return a reading of a host's device under its name here. `offset_s`: how far the clock there is ahead."""
    return replace(sample, device_id=full_name(host, sample.device_id), time=sample.time - offset_s)
