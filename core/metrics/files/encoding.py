"""How the files of trackers encode numbers and protect their records: protobuf messages and CRC-32C.

Messages are read without their descriptions: https://protobuf.dev/programming-guides/encoding.

CRC-32C (Castagnoli) is the checksum of records in event files; zlib's crc32 has another polynomial. It is linear: a
message's checksum is the XOR of one term for each byte and its position. So one table of shape (positions, bytes)
turns a block into one look-up for each byte, done by numpy at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from core.arrays import np
from core.language import tr

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


POLYNOMIAL = 0x82F63B78  # 0x1EDC6F41 with its bits reversed
MASK_DELTA = 0xA282EAD8
"""TFRecord stores a checksum rotated by 15 bits, plus this number."""
SHORT = 40
"""Bytes below which a Python loop is faster than numpy."""
BLOCK = 512


def crc32c(data: bytes) -> int:
    """Return the checksum of `data`; for `b"123456789"` it is 0xE3069283."""
    crc = 0xFFFFFFFF
    if len(data) < SHORT:
        table = _bytewise()
        for byte in data:
            crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
        return crc ^ 0xFFFFFFFF
    for begin in range(0, len(data), BLOCK):
        crc = _after(crc, np.frombuffer(data, np.uint8, min(BLOCK, len(data) - begin), begin))
    return crc ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    """Return a checksum as TFRecord stores it."""
    return (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF


def crc32c_of_rows(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the checksum of each row, shape (n, size) -> (n,)."""
    count, size = rows.shape
    if size > BLOCK:
        return np.fromiter((crc32c(row.tobytes()) for row in rows), np.uint32, count)
    table = _places()
    crc = np.full(count, _after(0xFFFFFFFF, np.zeros(size, np.uint8)), np.uint32)
    for place in range(size):
        crc ^= table[size - 1 - place, rows[:, place]]
    return crc ^ np.uint32(0xFFFFFFFF)


def masked_all(crcs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return `masked` of each checksum, shape (n,)."""
    return ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + np.uint32(MASK_DELTA)


def record_headers(data: bytes) -> NDArray[np.intp]:
    """Return the indices of possible record headers: eight bytes followed by their own masked checksum."""
    count = len(data) - 11
    if count <= 0:
        return np.empty(0, np.intp)
    numbers = np.frombuffer(data, np.uint8)
    rotated = masked_all(crc32c_of_rows(np.lib.stride_tricks.sliding_window_view(numbers[:-4], 8)))
    stored = sum(numbers[8 + i : 8 + i + count].astype(np.uint32) << np.uint32(8 * i) for i in range(4))
    return np.flatnonzero(rotated == stored)


def _after(crc: int, block: NDArray[np.uint8]) -> int:
    """Return the register `crc` after the bytes of `block`, shape (n,), n <= BLOCK."""
    size = len(block)
    table = _places()
    result = int(np.bitwise_xor.reduce(table[np.arange(size - 1, -1, -1), block]))
    # The register acts as an XOR into the first four bytes; for a shorter block its other bytes are shifted.
    for place in range(min(4, size)):
        result ^= int(table[size - 1 - place, (crc >> (8 * place)) & 0xFF])
    return result ^ (crc >> (8 * size) if size < 4 else 0)


@cache
def _bytewise() -> list[int]:
    return [int(each) for each in _places()[0]]


@cache
def _places() -> NDArray[np.uint32]:
    """Return the term of each byte by the number of bytes after it, shape (BLOCK, 256)."""
    crc = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crc = (crc >> np.uint32(1)) ^ np.where(crc & np.uint32(1), np.uint32(POLYNOMIAL), np.uint32(0))
    table = np.empty((BLOCK, 256), np.uint32)
    table[0] = crc
    for place in range(1, BLOCK):
        table[place] = (table[place - 1] >> np.uint32(8)) ^ crc[table[place - 1] & np.uint32(0xFF)]
    return table
