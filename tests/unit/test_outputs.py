"""The files below a run's `outputs/`: no links, no pipes, bounded numbers."""

import os
from pathlib import Path

import pytest

from core.runs import outputs
from core.schema.paths import OUTPUTS


def test_files_are_listed_newest_first(tmp_path: Path) -> None:
    assert outputs.listed(tmp_path) == outputs.Outputs(), "without outputs"
    folder = tmp_path / OUTPUTS / "samples"
    folder.mkdir(parents=True)
    for number, name in enumerate(["a.txt", "b.txt"]):
        (folder / name).write_text("x" * (number + 1))
        os.utime(folder / name, (number, number))
    with (tmp_path / OUTPUTS / "huge.bin").open("wb") as file:
        file.truncate(1 << 40)
    os.utime(tmp_path / OUTPUTS / "huge.bin", (7, 7))
    found = outputs.listed(tmp_path)
    assert [(each.name, each.size_bytes) for each in found.files] == [
        ("huge.bin", 1 << 40), ("samples/b.txt", 2), ("samples/a.txt", 1),
    ]
    assert found.is_complete
    assert found.size_bytes == (1 << 40) + 3


def test_planted_names_are_neither_followed_nor_opened(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    folder = tmp_path / "run" / OUTPUTS
    folder.mkdir(parents=True)
    (folder / "folder").symlink_to(secret)
    (folder / "file").symlink_to(secret / "key")
    os.mkfifo(folder / "pipe")
    (folder / os.fsdecode(b"\xff.txt")).touch()
    (name,) = [each.name for each in outputs.listed(tmp_path / "run").files]
    assert name.encode() == b"?.txt"
    other = tmp_path / "other"
    other.mkdir()
    (other / OUTPUTS).symlink_to(secret)
    assert not outputs.listed(other).files


def test_only_so_many_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "MAX_FILES", 5)
    deep = tmp_path / OUTPUTS
    for number in range(outputs.MAX_DEPTH + 2):
        deep = deep / str(number)
    deep.mkdir(parents=True)
    (deep / "lost").touch()
    assert outputs.listed(tmp_path) == outputs.Outputs(is_complete=False)
    for number in range(5):
        (tmp_path / OUTPUTS / f"{number}.txt").touch()
    assert len(outputs.listed(tmp_path).files) == 5
    (tmp_path / OUTPUTS / "one more").touch()
    found = outputs.listed(tmp_path)
    assert len(found.files) == 5
    assert not found.is_complete
