"""Read the files `run-*.wandb` of Weights & Biases while they grow, without its package.

The file is a LevelDB log: blocks of 32 KiB with records that have a header of seven bytes (CRC-32, length, type) and
are cut where a block ends; the first block begins with seven bytes of its own. Each record is a protobuf message
`Record` of wandb/proto/wandb_internal.proto, of which only the history is read: items with a key and a value in JSON.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import TYPE_CHECKING

from core.language import tr
from core.metrics.files.growing_file import BLOCK_BYTES, GrowingSource
from core.metrics.files.protobuf import BYTES, VARINT, fields, signed
from core.metrics.files.record_logs import json_number, reading_of

if TYPE_CHECKING:
    from pathlib import Path

    from core.metrics.common.reading import Reading

SUFFIX = ".wandb"
FILE_HEADER = b":W&B"
FILE_HEADER_BYTES, HEADER_BYTES, LOG_BLOCK_BYTES = 7, 7, 32 * 1024
VERSION = 0
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
MAX_RECORD_BYTES = 16 * 1024 * 1024
"""Larger records are no history."""
HISTORY = 2
"""The field of a `Record` that holds a `HistoryRecord`."""
ITEM, STEP = 1, 2
"""Fields of a `HistoryRecord`."""
KEY, NESTED_KEY, VALUE = 1, 2, 16
"""Fields of a `HistoryItem`."""
OWN_STEP, OWN_TIME = "_step", "_timestamp"
OWN = frozenset({OWN_STEP, OWN_TIME})
STEPS = frozenset({"step", "global_step", "trainer/global_step", "train/global_step", "train_step", "iteration"})
"""Names of a step that the program itself logs; `_step` counts the calls of `log`, if the program gives no step."""
SYSTEM = ("system.", "system/")
"""Prefixes of readings of the machine."""


class WandbFile(GrowingSource):
    """One offline file. A record that is damaged is skipped, and one that is incomplete waits for its rest."""

    def __init__(self, path: Path, offset: int = 0) -> None:  # noqa: ARG002 (each run of wandb has a file of its own)
        super().__init__(path)
        self._parts: list[bytes] = []
        """The parts of a record that goes on in the next block."""

    def poll(self, *, ended: bool = False) -> list[Reading]:  # noqa: ARG002 (an incomplete last record stays so)
        """Return the readings written since the last call, at most a block: see `more`."""
        data = self._file.read(BLOCK_BYTES)
        if self._file.restarted:
            self._parts = []
        begin, at = self._file.offset, 0
        if begin == 0 and len(data) >= FILE_HEADER_BYTES:
            if not self._is_known(data):
                return []
            at = FILE_HEADER_BYTES
        records: list[bytes] = []
        if begin or at:
            at = self._take_records(data, at, begin, records)
        self._file.advance(data, at)
        readings = [self._reading(record) for record in records]
        return [reading for reading in readings if reading is not None]

    def _is_known(self, data: bytes) -> bool:
        if data.startswith(FILE_HEADER) and data[6] == VERSION:
            return True
        self._problem = tr(
            "{path} is not a file of Weights & Biases that this version can read. Its metrics are missing here.",
            path=self.path,
        )
        self._file.advance(data, len(data))
        return False

    def _take_records(self, data: bytes, at: int, begin: int, records: list[bytes]) -> int:
        """Add the complete records in `data`, whose first byte is at `begin` of the file. Return where they end."""
        while True:
            left = LOG_BLOCK_BYTES - (begin + at) % LOG_BLOCK_BYTES
            if left < HEADER_BYTES:  # the end of a block is filled with zeros
                if at + left > len(data):
                    return at
                at += left
                continue
            if at + HEADER_BYTES > len(data):
                return at
            crc, size, kind = struct.unpack_from("<IHB", data, at)
            end = at + HEADER_BYTES + size
            if not FULL <= kind <= LAST or size > left - HEADER_BYTES:
                self._note_damage()
                if at + left > len(data):
                    return at  # go on at the next block once it is there
                self._parts, at = [], at + left
                continue
            if end > len(data):
                return at
            part = data[at + HEADER_BYTES : end]
            if zlib.crc32(part, zlib.crc32(bytes([kind]))) != crc:
                self._note_damage()
                self._parts = []
            else:
                self._join(kind, part, records)
            at = end

    def _join(self, kind: int, part: bytes, records: list[bytes]) -> None:
        if kind in {FULL, FIRST}:
            self._parts = []
        elif not self._parts:
            return  # the beginning was damaged
        self._parts.append(part)
        if sum(map(len, self._parts)) > MAX_RECORD_BYTES:
            self._parts = []
        elif kind in {FULL, LAST}:
            records.append(b"".join(self._parts))
            self._parts = []

    def _reading(self, record: bytes) -> Reading | None:
        try:
            numbers = _history(record)
        except ValueError:
            self._note_damage()
            return None
        if STEPS & numbers.keys():
            numbers.pop(OWN_STEP, None)
        return reading_of(numbers) if numbers else None


def _history(record: bytes) -> dict[str, float]:
    """Return the numbers of a record of the history by name; {} for any other. Raises `ValueError` if it is damaged."""
    numbers: dict[str, float] = {}
    for number, wire, _, content in fields(record):
        if (number, wire) != (HISTORY, BYTES):
            continue
        for inner, inner_wire, _, item in fields(content):
            if (inner, inner_wire) == (ITEM, BYTES):
                name, value = _item(item)
                if value is not None and not name.startswith(SYSTEM) and (not name.startswith("_") or name in OWN):
                    numbers[name] = value
            elif (inner, inner_wire) == (STEP, BYTES):
                numbers[OWN_STEP] = float(
                    next((signed(whole) for _, kind, whole, _ in fields(item) if kind == VARINT), 0)
                )
    return numbers


def _item(item: bytes) -> tuple[str, float | None]:
    """Return the name and the number of an item; None if its value is no number."""
    key, text = "", b""
    nested: list[str] = []
    for number, wire, _, content in fields(item):
        if wire == BYTES and number == KEY:
            key = content.decode("utf-8", "replace")
        elif wire == BYTES and number == NESTED_KEY:
            nested.append(content.decode("utf-8", "replace"))
        elif wire == BYTES and number == VALUE:
            text = content
    try:
        return key or "/".join(nested), json_number(json.loads(text))
    except (ValueError, RecursionError):
        return key or "/".join(nested), None
