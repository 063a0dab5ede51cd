"""The devices of this machine: what they are, and what they read at a moment.

A device kind is one module and one row of `KINDS`. Its module has `open_reader(options) -> Reader`
(see `reader.py`), and a kind that is not isolated `-> LocalReader`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .device import Device, Process, Sample, Survey

__all__ = ["KINDS", "Device", "Kind", "Process", "Sample", "Survey"]


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
        target="core.devices.nvidia",
        id_prefixes=("GPU-", "MIG-"),
    ),
    Kind(name="cpu", title="CPU", isolated=False, target="core.devices.cpu", id_prefixes=("cpu:",)),
)
