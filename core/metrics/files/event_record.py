"""One record of a TensorBoard event file: the protobuf messages `Event` and `Summary`, decoded by hand.

The field numbers are those of tensorflow/core/util/event.proto, framework/summary.proto and framework/tensor.proto.
Only what makes a scalar is looked at; pictures, histograms, texts and graphs are stepped over.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""The wire types; 3 and 4, groups, appear in none of these messages."""

Field = tuple[int, int, int, bytes]
"""Number, wire type, the value of a VARINT, the bytes of the others."""

_FORMATS = {  # by number of the data type: how one element stands in tensor_content
    1: "<f", 2: "<d", 3: "<i", 4: "<B", 5: "<h", 6: "<b", 9: "<q", 10: "<?", 17: "<H", 19: "<e", 22: "<I", 23: "<Q",
}  # fmt: skip
BFLOAT16, HALF = 14, 19
_LISTS = {5: "<f", 6: "<d"}  # float_val and double_val, packed or not
_VARINTS = (7, 10, 11, 13, 16, 17)  # int_val, int64_val, bool_val, half_val, uint32_val, uint64_val


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A number under a tag, as the program named it."""

    tag: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What was summarised at one step. `time` is in unix seconds."""

    time: float
    step: int
    scalars: tuple[Scalar, ...]


def parse_event(record: bytes) -> Event:
    """The scalars of a record; none where it holds something else. Raises `ValueError` when it is no such message."""
    time, step = 0.0, 0
    scalars: list[Scalar] = []
    for number, wire, whole, data in _fields(record):
        match number, wire:
            case 1, 1:
                (time,) = struct.unpack("<d", data)
            case 2, 0:
                step = _signed(whole)
            case 5, 2:
                scalars += _scalars(data)
    return Event(time=time, step=step, scalars=tuple(scalars))


def _scalars(summary: bytes) -> Iterator[Scalar]:
    for number, wire, _, data in _fields(summary):
        if (number, wire) == (1, BYTES):
            scalar = _scalar(data)
            if scalar is not None:
                yield scalar


def _scalar(value: bytes) -> Scalar | None:
    tag, found = "", None
    for number, wire, _, data in _fields(value):
        match number, wire:
            case 1, 2:
                tag = data.decode("utf-8", "replace")
            case 2, 5:
                (found,) = struct.unpack("<f", data)
            case 8, 2:
                found = _tensor(data)
    return None if found is None or not tag else Scalar(tag=tag, value=found)


def _tensor(tensor: bytes) -> float | None:
    """The number of a tensor of no dimensions; None for any other."""
    kind, found, content = 0, None, b""
    for number, wire, whole, data in _fields(tensor):
        match number, wire:
            case 1, 0:
                kind = whole
            case 2, 2 if data:
                return None  # it has dimensions, or a rank that is not known
            case 4, 2:
                content = data
            case _, 0 if number in _VARINTS:
                found = _element(kind, whole)
            case _, 2 if number in _VARINTS and data:
                found = _element(kind, _varint(data, 0)[0])
            case _, 1 | 2 | 5 if number in _LISTS and len(data) >= struct.calcsize(_LISTS[number]):
                (found,) = struct.unpack_from(_LISTS[number], data)
    return _of_content(kind, content) if content else found


def _of_content(kind: int, content: bytes) -> float | None:
    if kind == BFLOAT16 and len(content) == 2:
        return _bfloat16(int.from_bytes(content, "little"))
    form = _FORMATS.get(kind)
    if form is None or struct.calcsize(form) != len(content):
        return None
    return float(struct.unpack(form, content)[0])


def _element(kind: int, whole: int) -> float | None:
    if kind == HALF:  # half_val keeps the bits of 16-bit floats
        return float(struct.unpack("<e", struct.pack("<H", whole & 0xFFFF))[0])
    if kind == BFLOAT16:
        return _bfloat16(whole & 0xFFFF)
    return None if kind not in _FORMATS else float(whole if kind == 23 else _signed(whole))


def _bfloat16(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])


def _fields(message: bytes) -> Iterator[Field]:
    """The fields of a message, in order. Raises `ValueError` when it is cut or is none."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            whole, at = _varint(message, at)
            yield number, wire, whole, b""
            continue
        if wire == BYTES:
            size, at = _varint(message, at)
        elif wire in {FIXED64, FIXED32}:
            size = 8 if wire == FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if at + size > len(message):
            raise ValueError("a field that reaches beyond its message")
        yield number, wire, 0, message[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of 64 bits, and where the next thing begins."""
    whole = shift = 0
    for place in range(at, min(at + 10, len(data))):
        byte = data[place]
        whole |= (byte & 0x7F) << shift
        if byte < 0x80:
            return whole & 0xFFFFFFFFFFFFFFFF, place + 1
        shift += 7
    raise ValueError("a number without an end")


def _signed(whole: int) -> int:
    return whole - 2**64 if whole >= 2**63 else whole
