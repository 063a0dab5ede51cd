"""The network interfaces of this machine, and whether an address can be reached from here."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct

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


def reach(host: str, port: int, timeout_s: float) -> str:
    """Connect to an address once, and return the interface over which that goes. Raises `OSError`."""
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        return interface_of(str(connection.getsockname()[0]))
