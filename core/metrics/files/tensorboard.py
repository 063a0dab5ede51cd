"""Read TensorBoard event files while they grow, without TensorFlow.

An event file is a sequence of TFRecords: the length (8 bytes), its masked CRC-32C (4), the record, its masked
CRC-32C (4). https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
A record is a protobuf message `Event` with a `Summary`, decoded here by hand. The field numbers are those of
tensorflow/core/util/event.proto, framework/summary.proto and framework/tensor.proto. Only scalars are decoded;
images, histograms, texts and graphs are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from core.metrics.files.encoding import BYTES, crc32c, fields, masked, record_headers, signed, varint
from core.metrics.files.growing_file import BLOCK_BYTES, GrowingSource
from core.metrics.reading import TEST, VALIDATION, Reading, canonical, counts, is_counter, is_of_test

HEADER_BYTES, FRAME_BYTES = 12, 16
MAX_RECORD_BYTES = 16 * 1024 * 1024
"""Larger records are graphs or videos: they are skipped unread."""
MAX_LENGTH_BYTES = 2**31
"""The limit of protobuf messages: a larger length is damaged."""

EPOCH, BATCH, EVALUATION, ITERATIONS = "epoch_", "batch_", "evaluation_", "_vs_iterations"
"""Prefixes and suffix of the tags of Keras' callback."""
NO_CURVES = ("hparam/", "hp_metric", "_hparams_")
"""Prefixes of tags for TensorBoard's table of hyperparameters: one value a run."""

_FORMATS = {  # by data type: the struct format of one element of tensor_content
    1: "<f", 2: "<d", 3: "<i", 4: "<B", 5: "<h", 6: "<b", 9: "<q", 10: "<?", 17: "<H", 19: "<e", 22: "<I", 23: "<Q",
}
BFLOAT16, HALF = 14, 19
_LISTS = {5: "<f", 6: "<d"}  # float_val and double_val, packed or not
_VARINTS = (7, 10, 11, 13, 16, 17)  # int_val, int64_val, bool_val, half_val, uint32_val, uint64_val


class EventFile(GrowingSource):
    """One event file. Each scalar is a reading, named by its tag and the file's folder.

    - A file in a folder `validation`, `eval`, ... holds validation metrics: `loss` there is `val_loss`.
    - PyTorch's `SummaryWriter.add_scalars("loss", {"val": ...})` writes `loss` into a folder `loss_val`: `val_loss`.
    - Keras' callback counts `epoch_loss` by epochs: its reading has `epoch`, and `step` only if the file has it
      (Keras writes `evaluation_loss_vs_iterations` just before). `MetricMerger` finds the step from readings
      with both. Keras' `batch_loss` is `loss`, by step.

    An incomplete record at the end waits for its rest. A record with a wrong checksum is skipped. After a wrong
    length, reading continues at the next intact record.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        super().__init__(path, offset)
        self._max_bytes = BLOCK_BYTES
        self.tag = ""
        """The tag of the first scalar, as the program named it; "" until there is one."""
        self._evaluated_at: int | None = None
        """The step of Keras' last evaluation, at which the next epoch in the file ended."""

    def poll(self, *, ended: bool = False) -> list[Reading]:  # noqa: ARG002 (an incomplete last record stays so)
        """Return the readings written since the last call, at most a block: see `more`."""
        data = self._file.read(self._max_bytes)
        if self._file.restarted:
            self._evaluated_at = None
        self._max_bytes = BLOCK_BYTES
        records, size = self._split(data)
        self._file.advance(data, size)
        self._prepare_for(data[size : size + HEADER_BYTES])
        return [reading for record in records for reading in self._read(record)]

    def _split(self, data: bytes) -> tuple[list[bytes], int]:
        """Return the complete records at the start of `data`, and how many bytes of it are used up."""
        records: list[bytes] = []
        at = 0
        while len(data) - at >= HEADER_BYTES:
            size = _record_size(data[at : at + HEADER_BYTES])
            if size is None:
                self._note_damage()
                found = record_headers(data[at + 1 :])  # without one, search on when more bytes have come
                at = at + 1 + int(found[0]) if len(found) else max(at + 1, len(data) - HEADER_BYTES + 1)
                continue
            end = at + FRAME_BYTES + size
            if end > len(data):
                break
            record = data[at + HEADER_BYTES : end - 4]
            if struct.unpack_from("<I", data, end - 4)[0] == masked(crc32c(record)):
                records.append(record)
            else:
                self._note_damage()
            at = end
        return records, at

    def _prepare_for(self, header: bytes) -> None:
        """If the next record is larger than a block, read more with the next call, or skip the record."""
        size = _record_size(header) if len(header) == HEADER_BYTES else None
        if size is None or size + FRAME_BYTES <= BLOCK_BYTES:
            return
        if size <= MAX_RECORD_BYTES:
            self._max_bytes = size + FRAME_BYTES
        elif not self._file.skip(size + FRAME_BYTES):
            self._file.more = False  # the program is still writing it

    def _read(self, record: bytes) -> list[Reading]:
        try:
            time, step, scalars = _parse_event(record)
        except ValueError:
            self._note_damage()
            return []
        if scalars and not self.tag:
            self.tag = scalars[0][0]
        readings = [self._reading(time, step, *scalar) for scalar in scalars if not scalar[0].startswith(NO_CURVES)]
        return [reading for reading in readings if reading is not None]

    def _reading(self, time: float, step: int, tag: str, value: float) -> Reading | None:
        if is_counter(tag):
            return Reading(values={}, step=step, epoch=value, time=time) if counts(tag) == "epoch" else None
        folder = self.path.parent.name
        if tag.startswith(EVALUATION) and tag.endswith(ITERATIONS):
            self._evaluated_at = step
            name = _name(folder, tag.removeprefix(EVALUATION).removesuffix(ITERATIONS))
        elif tag.startswith(EPOCH):
            values = {_name(folder, tag.removeprefix(EPOCH)): value}
            return Reading(values=values, step=self._evaluated_at, epoch=step, time=time)
        else:
            name = _name(folder, tag.removeprefix(BATCH))
        return Reading(values={name: value}, step=step, time=time, of_test=_is_of_test(folder, tag))


@lru_cache(maxsize=1024)  # the records of one tag have one size
def _record_size(header: bytes) -> int | None:
    """Return the size of the record with this header; None if the header is damaged."""
    size, crc = struct.unpack("<QI", header)
    return int(size) if crc == masked(crc32c(header[:8])) and size <= MAX_LENGTH_BYTES else None


def _name(folder: str, tag: str) -> str:
    """Return our name for a scalar with this tag in a file in this folder."""
    part = folder.removeprefix(tag.replace("/", "_") + "_")
    if part != folder:  # named by `SummaryWriter.add_scalars`
        return canonical(f"{part}/{tag}")
    name = canonical(tag)
    return f"val_{name}" if folder.lower() in VALIDATION and not name.startswith("val_") else name


@lru_cache(maxsize=1024)
def _is_of_test(folder: str, tag: str) -> bool:
    """Return whether a scalar is measured on a test set, by its tag or by its file's folder."""
    part = folder.removeprefix(tag.replace("/", "_") + "_")
    return is_of_test(f"{part}/{tag}" if part != folder else tag) or folder.lower() in TEST


def _parse_event(record: bytes) -> tuple[float, int, list[tuple[str, float]]]:
    """Return the unix time, the step and the scalars of a record: tags, as the program named them, and values.

    Other content has no scalars. Raises `ValueError` if the record is not an `Event` message.
    """
    time, step = 0.0, 0
    scalars: list[tuple[str, float]] = []
    for number, wire, whole, data in fields(record):
        match number, wire:
            case 1, 1:
                (time,) = struct.unpack("<d", data)
            case 2, 0:
                step = signed(whole)
            case 5, 2:
                scalars += _scalars(data)
    return time, step, scalars


def _scalars(summary: bytes) -> Iterator[tuple[str, float]]:
    for number, wire, _, data in fields(summary):
        if (number, wire) == (1, BYTES) and (scalar := _scalar(data)) is not None:
            yield scalar


def _scalar(value: bytes) -> tuple[str, float] | None:
    tag, found = "", None
    for number, wire, _, data in fields(value):
        match number, wire:
            case 1, 2:
                tag = data.decode("utf-8", "replace")
            case 2, 5:
                (found,) = struct.unpack("<f", data)
            case 8, 2:
                found = _tensor(data)
    return None if found is None or not tag else (tag, found)


def _tensor(tensor: bytes) -> float | None:
    """Return the number of a tensor without dimensions; None for any other tensor."""
    kind, found, content = 0, None, b""
    for number, wire, whole, data in fields(tensor):
        match number, wire:
            case 1, 0:
                kind = whole
            case 2, 2 if data:
                return None  # it has dimensions, or an unknown rank
            case 4, 2:
                content = data
            case _, 0 if number in _VARINTS:
                found = _element(kind, whole)
            case _, 2 if number in _VARINTS and data:
                found = _element(kind, varint(data, 0)[0])
            case _, 1 | 2 | 5 if number in _LISTS and len(data) >= struct.calcsize(_LISTS[number]):
                (found,) = struct.unpack_from(_LISTS[number], data)
    return _from_content(kind, content) if content else found


def _from_content(kind: int, content: bytes) -> float | None:
    if kind == BFLOAT16 and len(content) == 2:
        return _bfloat16(int.from_bytes(content, "little"))
    form = _FORMATS.get(kind)
    if form is None or struct.calcsize(form) != len(content):
        return None
    return float(struct.unpack(form, content)[0])


def _element(kind: int, whole: int) -> float | None:
    if kind == HALF:  # half_val holds the bits of 16-bit floats
        return float(struct.unpack("<e", struct.pack("<H", whole & 0xFFFF))[0])
    if kind == BFLOAT16:
        return _bfloat16(whole & 0xFFFF)
    return None if kind not in _FORMATS else float(whole if kind == 23 else signed(whole))


def _bfloat16(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])
