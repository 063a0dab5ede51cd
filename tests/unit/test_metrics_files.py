"""CSV tables and JSON lines: as programs write them, cut off, rewritten, replaced, and missing."""

import json
import math
import os
from pathlib import Path

import pytest

from core.metrics.files.finder import MetricFileFinder
from core.metrics.files.growing_file import BLOCK_BYTES, GrowingFile
from core.metrics.files.record_logs import CsvFile, JsonLines
from core.metrics.reading import Reading
from tests.support.waiting import PATIENCE_S
from tests.unit.test_metrics_tensorboard import everything, needs_tensorboard

LIGHTNING = """\
epoch,lr-Adam,step,train_loss_epoch,train_loss_step,val_loss
,0.001,0,,,
0,,49,,2.25,
0,,99,,,1.5
0,,99,1.75,,
1,,149,,nan,
"""
KERAS = """\
epoch,accuracy,loss,val_accuracy,val_loss
0,0.375,1.400458574295044,0.375,1.395712971687317
1,0.5,inf,0.375,NA
"""
JSON = """\
{"step": 1, "loss": 0.5, "time": 1700000000.5}
{"step": 2, "loss": NaN, "lr": 1e-3, "epoch": 0.25}
{"global_step": 3, "iter": 1, "train": {"loss": -Infinity}, "val": {"loss": 2, "by": {"class": {"a": 1}}}}
{"mode": "val", "accuracy": 0.75, "note": "text", "done": true}
"""


def test_csv_of_lightning_is_read(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text(LIGHTNING)
    readings = CsvFile(tmp_path / "metrics.csv").poll()
    assert [(reading.values, reading.step, reading.epoch) for reading in readings] == [
        ({"lr_adam": 0.001}, 0, None),
        ({"loss": 2.25}, 49, 0),
        ({"val_loss": 1.5}, 99, 0),
        ({"loss_epoch": 1.75}, 99, 0),
        ({"loss": pytest.approx(math.nan, nan_ok=True)}, 149, 1),
    ]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_of_keras_is_read_with_any_separator(tmp_path: Path, separator: str) -> None:
    (tmp_path / "log.csv").write_text(KERAS.replace(",", separator), newline="\r\n")
    first, second = CsvFile(tmp_path / "log.csv").poll()
    values = {"accuracy": 0.375, "loss": 1.400458574295044, "val_accuracy": 0.375, "val_loss": 1.395712971687317}
    assert first == Reading(values=values, epoch=0)
    assert second == Reading(values={"accuracy": 0.5, "loss": math.inf, "val_accuracy": 0.375}, epoch=1)


def test_json_lines_are_read(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(JSON)
    first, second, third, fourth = JsonLines(tmp_path / "log.jsonl").poll()
    assert first == Reading(values={"loss": 0.5}, step=1, time=1700000000.5)
    assert (second.step, second.epoch, second.values["learning_rate"]) == (2, 0.25, 1e-3)
    assert math.isnan(second.values["loss"])
    assert third == Reading(values={"loss": -math.inf, "val_loss": 2.0}, step=3)
    assert fourth == Reading(values={"val_accuracy": 0.75})


@pytest.mark.parametrize(("kind", "text"), [(CsvFile, LIGHTNING), (CsvFile, KERAS), (JsonLines, JSON)])
def test_log_cut_at_any_byte_gives_the_same_readings(tmp_path, kind, text) -> None:
    path, data = tmp_path / "log", text.encode()
    path.write_bytes(data)
    whole = repr(kind(path).poll())  # as text, since NaN is not equal to itself
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        file = kind(path)
        readings = file.poll()
        with path.open("ab") as grown:
            grown.write(data[cut:])
        assert repr(readings + file.poll()) == whole, cut


def test_csv_rewritten_with_an_added_column_repeats_no_reading(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("epoch,step,train_loss\n0,1,3\n0,2,2\n")
    file = CsvFile(path)
    assert [reading.step for reading in file.poll()] == [1, 2]
    path.write_text("epoch,step,train_loss,val_loss\n0,1,3,\n0,2,2,\n0,2,,5\n")
    assert [dict(reading.values) for reading in file.poll()] == [{"val_loss": 5.0}]
    path.write_text("epoch,step,acc,train_loss,val_loss\n0,1,,3,\n")  # read while it is being rewritten
    assert file.poll() == []
    path.write_text("epoch,step,acc,train_loss,val_loss\n0,1,,3,\n0,2,,2,\n0,2,,,5\n1,3,1,1,\n")
    assert [dict(reading.values) for reading in file.poll()] == [{"accuracy": 1.0, "loss": 1.0}]


def test_replaced_csv_is_read_from_its_first_changed_row(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("step,loss\n1,3\n2,2\n")
    file = CsvFile(path)
    assert len(file.poll()) == 2
    (tmp_path / "other").write_text("step,loss\n1,3\n2,7\n3,6\n")
    (tmp_path / "other").replace(path)
    assert [(reading.step, reading.values["loss"]) for reading in file.poll()] == [(2, 7.0), (3, 6.0)]
    path.write_text("step,loss\n1,9\n")
    assert [(reading.step, reading.values["loss"]) for reading in file.poll()] == [(1, 9.0)]


def test_rewritten_json_lines_repeat_no_reading(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [f'{{"step": {step}, "loss": 0.5}}\n' for step in range(5)]
    path.write_text("".join(lines[:3]))
    file = JsonLines(path)
    assert [reading.step for reading in file.poll()] == [0, 1, 2]
    path.write_text(lines[0] + lines[1][:5])  # read while it is being rewritten
    assert file.poll() == []
    path.write_text("".join(lines))
    assert [reading.step for reading in file.poll()] == [3, 4]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (b"a" * 100, b"b" * 10 + b"a" * 200),  # the same where reading stopped, different at its beginning
        (b"a" * 600 + b"b" * 50, b"a" * 600 + b"c" * 100),
        (b"a" * 100, b"a" * 50),
    ],
)
def test_rewritten_file_is_detected_by_its_content(tmp_path: Path, first: bytes, second: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(first)
    file = GrowingFile(path)
    file.advance(first, len(file.read()))
    path.write_bytes(first + b"more")
    assert (file.read(), file.restarted) == (b"more", False)
    path.write_bytes(second)
    assert (file.read(), file.restarted) == (second, True)


def test_second_csv_header_applies_to_the_rows_after_it_and_earlier_rows_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("step,loss\n1,3\nstep,accuracy,loss\n2,0.5,2\n")
    assert [dict(reading.values) for reading in CsvFile(path).poll()] == [{"loss": 3.0}, {"accuracy": 0.5, "loss": 2.0}]
    path.write_text("step,loss\n1,3\n2,2\n")
    file = CsvFile(path, path.stat().st_size)  # the rows are of before the run
    assert file.poll() == []
    with path.open("a") as grown:
        grown.write("3,1\n")
    assert file.poll() == [Reading(values={"loss": 1.0}, step=3)]


def test_invalid_json_lines_are_skipped_and_the_first_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [
        "loss: 0.5",
        "[1]",
        '{"step": 3}',
        '{"loss": "0.5"}',
        '{"loss": true}',
        "{" * 5000,
        f'{{"loss": {"9" * 400}}}',
    ]
    path.write_text("\n".join([*lines, '{"loss": 1}', ""]))
    file = JsonLines(path)
    assert file.poll() == [Reading(values={"loss": 1.0})]
    assert "'loss: 0.5'" in file.complaint
    assert "not JSON" in file.complaint
    assert str(path) in file.complaint


def test_invalid_step_and_epoch_are_ignored_and_the_last_line_is_read_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for step in ("-1", "1.5", "1e300", "Infinity", "NaN", '"7"', "true", "null"):
        path.write_text(f'{{"step": {step}, "epoch": {step}, "loss": 1}}\n'.replace('"epoch": 1.5, ', ""))
        assert JsonLines(path).poll() == [Reading(values={"loss": 1.0})]
    path.write_text('{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 0.25}')
    file = JsonLines(path)
    assert [reading.step for reading in file.poll()] == [1]
    assert [reading.step for reading in file.poll(ended=True)] == [2]
    assert file.poll(ended=True) == []


@pytest.mark.parametrize("kind", [CsvFile, JsonLines])
def test_missing_file_pipe_or_folder_gives_no_readings(tmp_path: Path, kind: type[CsvFile | JsonLines]) -> None:
    pipe, folder, loop = tmp_path / "metrics.csv", tmp_path / "folder", tmp_path / "loop"
    os.mkfifo(pipe)
    folder.mkdir()
    loop.symlink_to(loop)
    for path in (pipe, folder, tmp_path / "none", pipe / "below"):
        file = kind(path)
        assert file.poll(ended=True) == []
        assert not file.trouble
    file = kind(loop)
    assert file.poll() == []
    assert f"{loop} cannot be read" in file.trouble


@pytest.mark.parametrize("kind", [CsvFile, JsonLines])
def test_binary_garbage_gives_no_readings(tmp_path: Path, kind: type[CsvFile | JsonLines]) -> None:
    path = tmp_path / "log"
    path.write_bytes(
        bytes(i * i * 7 % 256 for i in range(100_000)) + b"\n\x00,\x00\n" + b'"' * 200_000 + b"\n,,,\n1,2\n"
    )
    assert everything(kind(path)) == []


def test_large_file_is_read_in_blocks_and_an_overlong_line_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"loss": 1}\n' + b"x" * (3 * BLOCK_BYTES + 100) + b'\n{"loss": 2}\n')
    file = JsonLines(path)
    assert [reading.values["loss"] for reading in everything(file)] == [1.0, 2.0]
    assert not file.complaint  # the end of the overlong line is not parsed as a line of its own
    count = 3 * BLOCK_BYTES // 30
    path.write_text("".join(f'{{"step": {step}, "loss": 0.125}}\n' for step in range(count)))
    file = JsonLines(path)
    first = file.poll()
    assert (0 < len(first) < count / 2, file.more) == (True, True)
    assert [reading.step for reading in first + everything(file)] == list(range(count))


@pytest.mark.e2e
@needs_tensorboard
def test_csv_written_by_installed_keras_is_read(written_by_keras: Path) -> None:
    history = json.loads((written_by_keras / "histories.json").read_text())["log.csv"]
    readings = CsvFile(written_by_keras / "log.csv").poll()
    assert [reading.epoch for reading in readings] == [0, 1, 2]
    for name, values in history.items():
        assert [reading.values[name] for reading in readings] == pytest.approx(values)


def test_table_with_decimal_commas_is_read(tmp_path: Path) -> None:
    path = tmp_path / "verlauf.csv"
    path.write_text("epoch;loss;lr\n1;1,25;1e-3\n2;0,5;1,5e-4\n")
    assert [dict(reading.values) for reading in CsvFile(path).poll()] == [
        {"loss": 1.25, "learning_rate": 1e-3}, {"loss": 0.5, "learning_rate": 1.5e-4},
    ]


NAMES = {"utf-8": "损失", "utf-16": "né", "gbk": "损失", "shift_jis": "損失", "latin-1": "née", "koi8-r": "потеря"}


@pytest.mark.parametrize("encoding", NAMES)
def test_table_in_any_encoding_keeps_its_names_apart(tmp_path: Path, encoding: str) -> None:
    name = NAMES[encoding]
    path = tmp_path / "log.csv"
    path.write_bytes(f"step,{name} loss,{name[::-1]} loss,accuracy\n1,0.5,0.25,0.75\n2,0.4,0.2,1\n".encode(encoding))
    assert MetricFileFinder([tmp_path], 0.0).search(PATIENCE_S) == [path]
    first, second = CsvFile(path).poll()
    assert [each.step for each in (first, second)] == [1, 2]
    assert [*first.values.values()] == [0.5, 0.25, 0.75]
    assert len(second.values) == 3
    assert first.values["accuracy"] == 0.75
    assert encoding != "utf-8" or f"{name}_loss" in first.values
