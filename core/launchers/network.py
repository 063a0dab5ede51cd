"""The network interfaces of this machine, and whether an address can be reached from here."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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
