"""Decide which worker computes on which devices, and find the interfaces and addresses at which workers meet."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from core.catalog.strategies import Strategy
from core.devices.device import Device
from core.schema.rank import RankAssignment

Slot = tuple[str, tuple[Device, ...]]
"""A worker's role and its own devices."""


HOST = "127.0.0.1"
LOOPBACK = ("lo", "lo0")
"""Names of the loopback interface: Linux, and macOS and the BSDs."""
FETCH = "fetch"
"""The role of a process that fetches what the recipe needs."""


def assign_ranks(devices: Sequence[Device], strategy: Strategy) -> list[RankAssignment]:
    """Return the assignment of each rank, as the strategy requires."""
    slots = _SLOTS[strategy.processes](devices)
    addresses = free_addresses(len(slots)) if strategy.needs_addresses else ()
    return [
        RankAssignment(
            rank=rank,
            world_size=len(slots),
            devices=tuple(device.id for device in devices),
            own=tuple(device.id for device in own),
            kind=devices[0].kind,
            cores=tuple(core for device in own for core in device.cores),
            target=strategy.target,
            role=role,
            serves=role != "chief" and slots[0][0] == "chief",
            addresses=addresses,
        )
        for rank, (role, own) in enumerate(slots)
    ]


def fetcher(assignments: Sequence[RankAssignment]) -> RankAssignment:
    """Return the assignment of the process that fetches for these (`core.worker.main`): their cores, but no GPU."""
    return replace(
        assignments[0],
        rank=len(assignments),
        own=(),
        cores=tuple(core for assignment in assignments for core in assignment.cores),
        target="main:fetch",
        role=FETCH,
    )


def _per_device(devices: Sequence[Device]) -> list[Slot]:
    return [("worker", (device,)) for device in devices]


_SLOTS: dict[str, Callable[[Sequence[Device]], list[Slot]]] = {
    "one": lambda devices: [("worker", tuple(devices))],
    "per_device": _per_device,
    # A chief, a worker per device, and a server that keeps the variables.
    "parameter_server": lambda devices: [("chief", ()), *_per_device(devices), ("ps", ())],
}


def free_addresses(count: int) -> tuple[str, ...]:
    """Return `count` different unused addresses of this machine."""
    with contextlib.ExitStack() as stack:  # kept open until the last one is known, or one could be returned twice
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return tuple(f"{HOST}:{each.getsockname()[1]}" for each in sockets)


def interface_variables(name: str) -> dict[str, str]:
    """Return the variables by which gloo and NCCL use this network interface; it is known to reach the other ranks."""
    return {"GLOO_SOCKET_IFNAME": name, "NCCL_SOCKET_IFNAME": f"={name}"}  # without "=" a prefix


def loopback_variables(base: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which gloo and NCCL listen on the loopback interface only, as all ranks are here.

    Both choose another interface by themselves, or the one of the host's name. A variable that `base` has stays as it
    is. NCCL ignores the loopback's IPv6 address, so NCCL_SOCKET_FAMILY means that the user chooses. Without a known
    loopback interface nothing is returned, and both choose.
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname
    """
    present = {name for _, name in socket.if_nameindex()}
    name = next((name for name in LOOPBACK if name in present), None)
    if name is None:
        return {}
    found = {"GLOO_SOCKET_IFNAME": name}
    if "NCCL_SOCKET_FAMILY" not in base:
        found["NCCL_SOCKET_IFNAME"] = f"={name}"  # without "=" a prefix
    return {variable: value for variable, value in found.items() if variable not in base}


SIOCGIFADDR = 0x8915
"""The request for the address of an interface: see netdevice(7)."""


def interfaces() -> dict[str, str]:
    """Return the IPv4 address of each interface that has one, by the interface's name."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has no address
                answer = fcntl.ioctl(any_socket, SIOCGIFADDR, struct.pack("16s24x", name.encode()[:15]))
                found[name] = socket.inet_ntoa(answer[20:24])
    return found


def interface_of(address: str) -> str:
    """Return the name of the interface with this address; the empty string if there is none."""
    return next((name for name, own in interfaces().items() if own == address), "")


def reach(host: str, port: int, timeout_s: float) -> tuple[str, str]:
    """Connect to an address once. Return the interface over which that goes, and its address. Raises `OSError`."""
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        address = str(connection.getsockname()[0])
    return interface_of(address), address


@contextlib.contextmanager
def listening(count: int) -> Iterator[list[int]]:
    """Listen on `count` free ports of all addresses for as long as the block lasts; yield the ports. Raises `OSError`.

    No other program is given them meanwhile.
    """
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("", 0))) for _ in range(count)]
        yield [each.getsockname()[1] for each in listeners]
