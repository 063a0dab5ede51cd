"""The kinds of devices: one row each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of device."""

    name: str
    """The value of `Device.kind`."""
    title: str
    """Its name for users."""
    isolated: bool
    """Whether to read it in a helper process, because its driver can hang or crash."""
    target: str
    """The module that reads it: a string, so that importing this table loads no driver."""
    id_prefixes: tuple[str, ...]
    """Prefixes of its devices' ids. A kind without a wanted device is not read."""


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
