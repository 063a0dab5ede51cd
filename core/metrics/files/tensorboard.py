"""TensorBoard event files, read as they grow, without TensorFlow.

An event file is a row of TFRecords: the length (8 bytes), its masked CRC-32C (4), the record, its masked
CRC-32C (4). https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING

from core.metrics.common.names import VALIDATION, canonical, counts, is_counter
from core.metrics.common.reading import Reading
from core.metrics.files.crc32c import crc32c, headers, masked
from core.metrics.files.event_record import parse_event
from core.metrics.files.growing import BLOCK_BYTES, Growing

if TYPE_CHECKING:
    from pathlib import Path

    from core.metrics.files.event_record import Event, Scalar

HEADER_BYTES, FRAME_BYTES = 12, 16
LARGEST_BYTES = 16 * 1024 * 1024
"""What is larger is a graph or a film: stepped over unread."""
LONGEST_BYTES = 2**31
"""No protobuf message is larger: a length that says so is broken."""

EPOCH, BATCH, EVALUATION, ITERATIONS = "epoch_", "batch_", "evaluation_", "_vs_iterations"
"""How Keras' callback begins and ends its tags."""
NO_CURVES = ("hparam/", "hp_metric", "_hparams_")
"""Results of a whole run, for TensorBoard's table of settings."""


class EventFile:
    """One event file. Every scalar is a reading, by its tag and the folder that the file is in.

    - A file in a folder `validation`, `eval`, ... holds validation: `loss` there is `val_loss`.
    - `SummaryWriter.add_scalars("loss", {"val": ...})` of PyTorch writes `loss` into a folder `loss_val`: `val_loss`.
    - Keras' callback counts `epoch_loss` by epochs: such a reading has `epoch`, and no `step` unless the file
      itself tells it (`evaluation_loss_vs_iterations`, which Keras writes just before). `Merge` finds the step
      from readings that have both. Keras' `batch_loss` is `loss`, by step.

    A torn record at the end is waited for. A record whose checksum is wrong is passed over; behind a length
    that is wrong, the next record that is whole is looked for.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        """`offset`: where to begin, the end of a record: what is before it was there before the run."""
        self.path = path
        self._file = Growing(path, offset)
        self._max_bytes = BLOCK_BYTES
        self._broken = 0
        self._evaluated_at: int | None = None
        """The step of Keras' last evaluation, which the epoch that is told next has ended with."""

    @property
    def more(self) -> bool:
        """Whether the last poll left something that is there already."""
        return self._file.more

    @property
    def trouble(self) -> str:
        """What is wrong with the file, in a sentence; "" when nothing is."""
        if self._broken:
            return (
                f"{self.path} has records that are damaged: they are passed over, and what they held is missing here."
            )
        return self._file.trouble

    def poll(self, *, ended: bool = False) -> list[Reading]:  # noqa: ARG002 (a torn record stays torn at the end)
        """What was written since the last call, at most a block: `more` tells whether to call again at once."""
        data = self._file.read(self._max_bytes)
        if self._file.restarted:
            self._evaluated_at = None
        self._max_bytes = BLOCK_BYTES
        records, size = self._split(data)
        self._file.advance(data, size)
        self._provide_for(data[size : size + HEADER_BYTES])
        return [reading for record in records for reading in self._read(record)]

    def _split(self, data: bytes) -> tuple[list[bytes], int]:
        """The whole records at the beginning of `data`, and how many bytes are done with."""
        records: list[bytes] = []
        at = 0
        while len(data) - at >= HEADER_BYTES:
            size = _record_size(data[at : at + HEADER_BYTES])
            if size is None:
                self._broken += 1
                at = _next_header(data, at + 1)
                continue
            end = at + FRAME_BYTES + size
            if end > len(data):
                break
            record = data[at + HEADER_BYTES : end - 4]
            if struct.unpack_from("<I", data, end - 4)[0] == masked(crc32c(record)):
                records.append(record)
            else:
                self._broken += 1
            at = end
        return records, at

    def _provide_for(self, header: bytes) -> None:
        """The next record may be larger than a block: take more at a time, or step over it."""
        size = _record_size(header) if len(header) == HEADER_BYTES else None
        if size is None or size + FRAME_BYTES <= BLOCK_BYTES:
            return
        if size <= LARGEST_BYTES:
            self._max_bytes = size + FRAME_BYTES
        elif not self._file.skip(size + FRAME_BYTES):
            self._file.more = False  # it is still being written

    def _read(self, record: bytes) -> list[Reading]:
        try:
            event = parse_event(record)
        except ValueError:
            self._broken += 1
            return []
        readings = [self._reading(event, scalar) for scalar in event.scalars if not scalar.tag.startswith(NO_CURVES)]
        return [reading for reading in readings if reading is not None]

    def _reading(self, event: Event, scalar: Scalar) -> Reading | None:
        tag, step = scalar.tag, event.step
        if is_counter(tag):
            is_epoch = counts(tag) == "epoch"
            return Reading(values={}, step=step, epoch=scalar.value, time=event.time) if is_epoch else None
        folder = self.path.parent.name
        if tag.startswith(EVALUATION) and tag.endswith(ITERATIONS):
            self._evaluated_at = step
            name = _name(folder, tag.removeprefix(EVALUATION).removesuffix(ITERATIONS))
            return Reading(values={name: scalar.value}, step=step, time=event.time)
        if tag.startswith(EPOCH):
            values = {_name(folder, tag.removeprefix(EPOCH)): scalar.value}
            return Reading(values=values, step=self._evaluated_at, epoch=step, time=event.time)
        return Reading(values={_name(folder, tag.removeprefix(BATCH)): scalar.value}, step=step, time=event.time)


@lru_cache(maxsize=1024)  # records of one tag are of one size
def _record_size(header: bytes) -> int | None:
    """The size of the record that begins with this header; None when it is broken."""
    size, crc = struct.unpack("<QI", header)
    return int(size) if crc == masked(crc32c(header[:8])) and size <= LONGEST_BYTES else None


def _next_header(data: bytes, at: int) -> int:
    """Where the next record begins; where nothing can be said yet when none does."""
    found = headers(data[at:])
    return at + int(found[0]) if len(found) else max(at, len(data) - HEADER_BYTES + 1)


def _name(folder: str, tag: str) -> str:
    """By our names: of a scalar that the program wrote under `tag` into a file in `folder`."""
    part = folder.removeprefix(tag.replace("/", "_") + "_")
    if part != folder:  # as `SummaryWriter.add_scalars` names its folders
        return canonical(f"{part}/{tag}")
    name = canonical(tag)
    return f"val_{name}" if folder.lower() in VALIDATION and not name.startswith("val_") else name
