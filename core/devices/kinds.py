"""The kinds of devices: one row each, naming the module that reads it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of device."""

    name: str
    """What `Device.kind` says."""
    title: str
    """The same for people."""
    isolated: bool
    """Read in a process of its own, because what answers can hang or crash."""
    target: str
    """The module to import where the kind is read: a string, so that naming a kind loads no driver."""
    id_prefixes: tuple[str, ...]
    """How the ids of its devices begin: nothing is asked about a kind of which no device is wanted."""


KINDS: tuple[Kind, ...] = (
    Kind(
        name="nvidia",
        title="NVIDIA",
        isolated=True,
        target="core.devices.nvidia.reader",
        id_prefixes=("GPU-", "MIG-"),
    ),
    Kind(name="cpu", title="CPU", isolated=False, target="core.devices.cpu", id_prefixes=("cpu:",)),
)
