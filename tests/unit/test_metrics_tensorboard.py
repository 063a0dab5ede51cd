"""TensorBoard event files: as real writers write them, cut at every byte, damaged, and missing."""

import json
import math
import os
import struct
from importlib.util import find_spec
from pathlib import Path

import pytest

from core.metrics.files.encoding import crc32c, masked
from core.metrics.files.growing_file import BLOCK_BYTES
from core.metrics.files.tensorboard import EventFile
from core.metrics.reading import Reading
from tests.support.recorded_events import (
    KERAS,
    PYTORCH,
    field,
    framed,
    scalar_record,
    stored_crc,
    tensor_record,
    varint,
)

NAME = "events.out.tfevents.1700000000.host.1.0"


def everything(file: EventFile) -> list[Reading]:
    """Return all readings available so far."""
    readings = file.poll()
    while file.more:
        readings += file.poll()
    return readings


def brief(readings: list[Reading]) -> list[tuple[dict[str, float], int | None, float | None]]:
    """Return values, step and epoch of each reading."""
    return [
        ({name: round(value, 6) for name, value in each.values.items()}, each.step, each.epoch) for each in readings
    ]


def written(folder: Path, data: bytes, name: str = NAME) -> EventFile:
    """Write an event file with this content."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return EventFile(folder / name)


def test_crc32c_matches_the_published_values() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4; also the next two lines
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 39, 40, 41, 511, 512, 513, 515, 516, 1500])
def test_crc32c_of_any_size_matches_the_bitwise_checksum(size: int) -> None:
    data = bytes(i * 37 % 251 for i in range(size))
    assert struct.pack("<I", masked(crc32c(data))) == stored_crc(data)


def test_events_of_pytorch_are_read(tmp_path: Path) -> None:
    readings = everything(written(tmp_path / "run", PYTORCH))
    assert brief(readings) == [
        ({"loss": 1.0}, 0, None), ({"val_loss": 2.0}, 0, None), ({"loss": 0.5}, 1, None), ({"val_loss": 1.0}, 1, None),
        ({"loss": 0.333333}, 2, None), ({"val_loss": 0.666667}, 2, None), ({"learning_rate": 0.1}, 2, None),
    ]
    assert all(reading.time is not None and 1.7e9 < reading.time < 2e9 for reading in readings)


def test_events_of_keras_have_step_and_epoch(tmp_path: Path) -> None:
    readings = brief(everything(written(tmp_path / "validation", KERAS)))
    measured = zip((1.395713, 1.388745, 1.381804), (4, 8, 12), range(3), strict=True)
    assert [each for each in readings if "val_loss" in each[0]] == [
        ({"val_loss": loss}, step, epoch) for loss, step, at in measured for epoch in (None, at)
    ]
    assert {name for values, _, _ in readings for name in values} == {"val_loss", "val_accuracy"}
    data = scalar_record("batch_loss", 3.0, 7) + scalar_record("epoch_loss", 2.0, 1) + scalar_record("epoch", 1.0, 9)
    readings = everything(written(tmp_path / "train", data))
    assert brief(readings) == [({"loss": 3.0}, 7, None), ({"loss": 2.0}, None, 1), ({}, 9, 1)]


@pytest.mark.parametrize(
    ("folder", "tag", "name"),
    [
        ("runs", "loss", "loss"),
        ("runs", "Loss/train", "loss"),
        ("runs", "eval/loss", "val_loss"),
        ("eval", "loss", "val_loss"),
        ("validation", "val_loss", "val_loss"),
        ("loss_val", "loss", "val_loss"),  # SummaryWriter.add_scalars("loss", {"val": ...})
        ("loss_train", "loss", "loss"),
        ("version_0", "train_loss_step", "loss"),
        ("version_0", "val_accuracy", "val_accuracy"),
        ("version_0", "lr-Adam", "lr_adam"),
        # hyperparameters and speed are no metrics
        ("runs", "hparam/accuracy", None), ("runs", "hp_metric", None), ("runs", "epoch_steps_per_second", None),
    ],
)
def test_metric_name_comes_from_tag_and_folder(tmp_path: Path, folder: str, tag: str, name: str | None) -> None:
    readings = everything(written(tmp_path / folder, scalar_record(tag, 1.0, 5)))
    assert [list(reading.values) for reading in readings] == ([] if name is None else [[name]])


TENSORS = {
    "float_val": (b"\x08\x01" + b"\x2d" + struct.pack("<f", 2.5), 2.5),
    "float_val packed": (b"\x08\x01" + field(5, struct.pack("<f", 2.5)), 2.5),
    "double content": (b"\x08\x02" + field(2, b"") + field(4, struct.pack("<d", 2.5)), 2.5),
    "double_val": (b"\x08\x02" + field(6, struct.pack("<d", 2.5)), 2.5),
    "half content": (b"\x08\x13" + field(4, struct.pack("<e", 2.5)), 2.5),
    "half_val": (b"\x08\x13" + field(13, varint(0x4100)), 2.5),
    "bfloat16 content": (b"\x08\x0e" + field(4, b"\x20\x40"), 2.5),
    "int_val": (b"\x08\x03" + b"\x38" + varint(-3), -3.0),
    "int64 content": (b"\x08\x09" + field(4, struct.pack("<q", -3)), -3.0),
    "uint64_val": (b"\x08\x17" + field(17, varint(2**63)), 2.0**63),
    "not a number": (b"\x08\x01" + field(4, struct.pack("<f", math.nan)), math.nan),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_scalar_tensor_of_any_type_is_read_as_a_number(tmp_path: Path, kind: str) -> None:
    tensor, value = TENSORS[kind]
    (reading,) = everything(written(tmp_path, tensor_record("loss", tensor, 1)))
    assert reading.values == {"loss": pytest.approx(value, nan_ok=True)}


@pytest.mark.parametrize(
    "tensor",
    [
        b"\x08\x01" + field(2, field(2, b"\x08\x01")) + field(4, struct.pack("<f", 1.0)),  # shape (1,)
        b"\x08\x07" + field(8, b"text"),  # a string
        b"\x08\x02" + field(4, struct.pack("<f", 1.0)),  # a double with half of its bytes
        b"\x08\x01",  # a tensor without a value
        b"\x08\x77" + field(4, b"1234"),  # an unknown type
    ],
)
def test_tensor_that_is_not_a_scalar_number_is_skipped(tmp_path: Path, tensor: bytes) -> None:
    file = written(tmp_path, tensor_record("loss", tensor, 1) + scalar_record("loss", 4.0, 2))
    assert brief(everything(file)) == [({"loss": 4.0}, 2, None)]
    assert not file.trouble


def test_event_file_cut_at_any_byte_gives_the_same_readings(tmp_path: Path) -> None:
    whole = everything(written(tmp_path, PYTORCH))
    for cut in range(len(PYTORCH)):
        path = tmp_path / NAME
        path.write_bytes(PYTORCH[:cut])
        file = EventFile(path)
        readings = everything(file)
        assert not file.trouble
        with path.open("ab") as grown:
            grown.write(PYTORCH[cut:])
        assert readings + everything(file) == whole, cut


def test_damaged_record_and_garbage_are_skipped_and_reported(tmp_path: Path) -> None:
    records = [scalar_record("loss", float(step), step) for step in range(4)]
    damaged = bytearray(records[1])
    damaged[-6] ^= 1
    garbage = bytes(i * i % 256 for i in range(5000)) + framed(b"\xff" * 9) + framed(b"\x2a\x7f")
    for data, steps in ((records[0] + damaged + records[2], [0, 2]), (garbage, [])):
        file = written(tmp_path, data)
        assert [reading.step for reading in everything(file)] == steps
        assert NAME in file.trouble
        assert "damaged" in file.trouble


@pytest.mark.parametrize("size", [2**63, 2**64 - 1, 2**31 + 1, 5])
def test_record_after_a_wrong_length_is_found(tmp_path: Path, size: int) -> None:
    records = [scalar_record("loss", float(step), step) for step in range(4)]
    wrong = struct.pack("<Q", size) + (stored_crc(struct.pack("<Q", size)) if size > 2**31 else b"1234")
    file = written(tmp_path, records[0] + wrong + records[1][12:] + records[2])
    assert [reading.step for reading in everything(file)] == [0, 2]
    assert "damaged" in file.trouble
    with file.path.open("ab") as grown:
        grown.write(records[3])
    assert [reading.step for reading in everything(file)] == [3]


def test_record_longer_than_the_file_is_waited_for_without_allocating_it(tmp_path: Path) -> None:
    size = struct.pack("<Q", 2**31 - 1)
    file = written(tmp_path, scalar_record("loss", 1.0, 1) + size + stored_crc(size) + bytes(2 * BLOCK_BYTES))
    assert [len(file.poll()) for _ in range(4)] == [1, 0, 0, 0]
    assert not file.trouble
    assert not file.more


def test_large_record_is_read_and_a_huge_one_skipped(tmp_path: Path) -> None:
    picture = framed(field(5, field(1, field(1, b"picture") + field(4, bytes(700_000)))))
    path = tmp_path / NAME
    with path.open("wb") as file:
        file.write(scalar_record("loss", 1.0, 1) + picture + scalar_record("loss", 2.0, 2))
        size = struct.pack("<Q", 2**26)
        file.write(size + stored_crc(size))
        file.seek(2**26 + 4, os.SEEK_CUR)  # a hole in the file, which is not read
        file.write(scalar_record("loss", 3.0, 3))
    assert [reading.step for reading in everything(EventFile(path))] == [1, 2, 3]


def test_rewritten_event_file_is_read_from_its_beginning_and_earlier_records_are_skipped(tmp_path: Path) -> None:
    before = scalar_record("loss", 1.0, 1)
    file = written(tmp_path, before + scalar_record("loss", 2.0, 2))
    assert len(everything(file)) == 2
    assert brief(everything(EventFile(file.path, len(before)))) == [({"loss": 2.0}, 2, None)]
    written(tmp_path, scalar_record("loss", 7.0, 1))
    assert brief(everything(file)) == [({"loss": 7.0}, 1, None)]


def test_deleted_event_file_is_no_error_and_an_unreadable_one_is_reported(tmp_path: Path) -> None:
    file = written(tmp_path / "gone", scalar_record("loss", 1.0, 1))
    file.path.unlink()
    file.path.parent.rmdir()
    assert everything(file) == []
    assert not file.trouble
    (tmp_path / "loop").symlink_to(tmp_path / "loop")  # a symlink loop is unreadable even for root
    loop = EventFile(tmp_path / "loop")
    assert everything(loop) == []
    assert "cannot be read" in loop.trouble


def test_pipe_and_device_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, flags: int) -> int:
        raise AssertionError(f"{path} was opened")  # opening a pipe would unblock a writer that waits for a reader

    os.mkfifo(tmp_path / NAME)
    monkeypatch.setattr("core.metrics.files.growing_file.os.open", refuse)
    assert EventFile(tmp_path / NAME).poll() == []
    assert EventFile(Path("/dev/zero")).poll() == []


needs_tensorboard = pytest.mark.skipif(
    find_spec("tensorboard") is None or find_spec("tensorflow") is None, reason="no TensorFlow for this Python"
)


@pytest.mark.e2e
@needs_tensorboard
def test_events_written_by_installed_tensorflow_are_read(written_by_keras: Path) -> None:
    (path,) = (written_by_keras / "tensorflow").iterdir()
    assert [(reading.values, reading.step) for reading in everything(EventFile(path))] == [
        ({name: pytest.approx(value)}, step)
        for step in range(3)
        for name, value in (("float32", step / 2), ("int64", step), ("float16", step / 2))
    ]


@pytest.mark.e2e
@needs_tensorboard
def test_events_written_by_installed_keras_are_read(written_by_keras: Path) -> None:
    histories = json.loads((written_by_keras / "histories.json").read_text())
    for often in ("epoch", "batch"):
        history = histories[often]
        (train,) = (written_by_keras / often / "train").iterdir()
        (validation,) = (written_by_keras / often / "validation").iterdir()
        losses = [reading for reading in everything(EventFile(train)) if "loss" in reading.values]
        assert [reading.values["loss"] for reading in losses if reading.step is None] == pytest.approx(history["loss"])
        assert [reading.epoch for reading in losses if reading.step is None] == [0, 1, 2]
        steps = [reading.step for reading in losses if reading.step is not None]
        assert steps == ([] if often == "epoch" else [1, 2, 3, 4, 5, 6])
        validated = [each for each in everything(EventFile(validation)) if each.epoch is not None]
        assert [(reading.step, reading.epoch) for reading in validated] == [(2, 0), (4, 1), (6, 2)]
        assert [reading.values["val_loss"] for reading in validated] == pytest.approx(history["val_loss"])


def test_batches_of_a_validation_are_no_curve_and_a_test_set_is_marked(tmp_path: Path) -> None:
    """Lightning's tags where `val_loss` is logged with `on_step=True`."""
    tags = ("val_loss_step", "val_loss_epoch", "test_loss_step", "test_loss_epoch", "train_loss_step", "Loss/test")
    file = written(tmp_path, b"".join(scalar_record(tag, float(at), at) for at, tag in enumerate(tags)))
    assert [(each.values, each.of_test) for each in file.poll()] == [
        ({"val_loss": 1.0}, False), ({"val_loss": 3.0}, True), ({"loss": 4.0}, False), ({"val_loss": 5.0}, True),
    ]
