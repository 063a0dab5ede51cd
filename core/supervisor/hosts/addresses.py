"""What a machine says of its addresses and ports, checked."""

from __future__ import annotations

import ipaddress
from typing import Any, NamedTuple


class OwnAddress(NamedTuple):
    """From where a machine reaches another one."""

    interface: str
    address: str


def own_address(found: Any) -> OwnAddress:  # noqa: ANN401 (JSON)
    """Return what a machine has answered to `reach`. Raises `ValueError` if that is no interface and address."""
    name, address = (found.get(each) for each in ("interface", "address")) if isinstance(found, dict) else ("", "")
    if not isinstance(name, str) or not name.isprintable() or not name or not isinstance(address, str):
        raise ValueError
    return OwnAddress(name, str(ipaddress.IPv4Address(address)))


def free_ports(found: Any, count: int) -> list[int]:  # noqa: ANN401 (JSON)
    """Return what a machine has answered to `listen`. Raises `ValueError` unless these are `count` different ports."""
    ports = found.get("ports") if isinstance(found, dict) else None
    if not isinstance(ports, list) or len(ports) != count or not all(map(_is_port, ports)):
        raise ValueError
    if len(set(ports)) < count:
        raise ValueError
    return ports


def _is_port(value: object) -> bool:
    return type(value) is int and 0 < value < 65536
