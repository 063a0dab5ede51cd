"""CRC-32C (Castagnoli), with which event files protect their records; the standard library has another polynomial.

The checksum is linear: that of a message is the XOR of what each of its bytes gives at its place. So a table of
places x bytes turns a block into one look-up per byte, which numpy does at once.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

POLYNOMIAL = 0x82F63B78  # 0x1EDC6F41 with its bits reversed
MASK_DELTA = 0xA282EAD8
"""TFRecord's: a checksum that is stored next to its data is turned by 15 bits, and this is added."""
SHORT = 40
"""Below so many bytes a loop is faster than a call of numpy's."""
BLOCK = 512


def crc32c(data: bytes) -> int:
    """The checksum of `data`; of `b"123456789"` it is 0xE3069283."""
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
    """A checksum as TFRecord stores it."""
    return (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF


def headers(data: bytes) -> NDArray[np.intp]:
    """Where in `data` eight bytes are followed by their own masked checksum, as at the beginning of every record."""
    count = len(data) - 11
    if count <= 0:
        return np.empty(0, np.intp)
    numbers = np.frombuffer(data, np.uint8)
    table = _places()
    crc = np.full(count, int(_of_ones(8)), np.uint32)
    for place in range(8):
        crc ^= table[7 - place, numbers[place : place + count]]
    crc ^= np.uint32(0xFFFFFFFF)
    turned = ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(MASK_DELTA)
    stored = sum(numbers[8 + i : 8 + i + count].astype(np.uint32) << np.uint32(8 * i) for i in range(4))
    return np.flatnonzero(turned == stored)


def _after(crc: int, block: NDArray[np.uint8]) -> int:
    """The register, which was `crc`, after the bytes of `block`, shape (n,), n <= BLOCK."""
    size = len(block)
    table = _places()
    gone = int(np.bitwise_xor.reduce(table[np.arange(size - 1, -1, -1), block]))
    # The register is as good as an XOR into the first four bytes; of a shorter block, its rest is shifted on.
    for place in range(min(4, size)):
        gone ^= int(table[size - 1 - place, (crc >> (8 * place)) & 0xFF])
    return gone ^ (crc >> (8 * size) if size < 4 else 0)


def _of_ones(size: int) -> int:
    return _after(0xFFFFFFFF, np.zeros(size, np.uint8))


@cache
def _bytewise() -> list[int]:
    return [int(each) for each in _places()[0]]


@cache
def _places() -> NDArray[np.uint32]:
    """Shape (BLOCK, 256): what a byte gives when so many bytes come after it."""
    crc = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crc = (crc >> np.uint32(1)) ^ np.where(crc & np.uint32(1), np.uint32(POLYNOMIAL), np.uint32(0))
    table = np.empty((BLOCK, 256), np.uint32)
    table[0] = crc
    for place in range(1, BLOCK):
        table[place] = (table[place - 1] >> np.uint32(8)) ^ crc[table[place - 1] & np.uint32(0xFF)]
    return table
