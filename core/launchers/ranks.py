"""Decide which worker computes on which devices, and where workers meet."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

from core.schema.rank import RankAssignment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from core.catalog.strategies import Strategy
    from core.devices.device import Device

    Seat = tuple[str, tuple[Device, ...]]
    """A worker's role and its own devices."""

HOST = "127.0.0.1"


def assign_ranks(devices: Sequence[Device], cell: Strategy) -> list[RankAssignment]:
    """Who works where, in the order of ranks: what the strategy's row says of its processes."""
    seats = _SEATS[cell.processes](devices)
    addresses = free_addresses(len(seats)) if cell.needs_addresses else ()
    return [
        RankAssignment(
            rank=rank,
            world_size=len(seats),
            devices=tuple(device.id for device in devices),
            own=tuple(device.id for device in own),
            kind=devices[0].kind,
            cores=tuple(core for device in own for core in device.cores),
            target=cell.target,
            role=role,
            addresses=addresses,
        )
        for rank, (role, own) in enumerate(seats)
    ]


def _one(devices: Sequence[Device]) -> list[Seat]:
    return [("worker", tuple(devices))]


def _per_device(devices: Sequence[Device]) -> list[Seat]:
    return [("worker", (device,)) for device in devices]


def _parameter_server(devices: Sequence[Device]) -> list[Seat]:
    """A chief that decides, a worker per device, and a server that keeps the variables."""
    return [("chief", ()), *_per_device(devices), ("ps", ())]


_SEATS: dict[str, Callable[[Sequence[Device]], list[Seat]]] = {
    "one": _one,
    "per_device": _per_device,
    "parameter_server": _parameter_server,
}


def free_addresses(count: int) -> tuple[str, ...]:
    """So many addresses of this machine that nobody listens at, each another."""
    with contextlib.ExitStack() as stack:  # all are held until the last is known, or one would be given twice
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return tuple(f"{HOST}:{each.getsockname()[1]}" for each in sockets)
