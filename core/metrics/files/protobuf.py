"""Fields of protobuf messages, without their descriptions: https://protobuf.dev/programming-guides/encoding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.language import tr

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types. Groups, 3 and 4, do not occur in the messages that are read here."""


def fields(message: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield the number, wire type, VARINT value and other bytes of each field, in order.

    Raises `ValueError` if the message is incomplete or malformed.
    """
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            whole, at = varint(message, at)
            yield number, wire, whole, b""
            continue
        if wire == BYTES:
            size, at = varint(message, at)
        elif wire in {FIXED64, FIXED32}:
            size = 8 if wire == FIXED64 else 4
        else:
            raise ValueError(tr("unknown wire type {wire}", wire=wire))
        if at + size > len(message):
            raise ValueError(tr("a field exceeds its message"))
        yield number, wire, 0, message[at : at + size]
        at += size


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of 64 bits, and the index after it."""
    whole = shift = 0
    for place in range(at, min(at + 10, len(data))):
        byte = data[place]
        whole |= (byte & 0x7F) << shift
        if byte < 0x80:
            return whole & 0xFFFFFFFFFFFFFFFF, place + 1
        shift += 7
    raise ValueError(tr("a varint without an end"))


def written_varint(number: int) -> bytes:
    """Return a number of at most 64 bits as a varint."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])


def signed(whole: int) -> int:
    """Return a number of 64 bits as one with a sign."""
    return whole - 2**64 if whole >= 2**63 else whole
