"""Find the metric files written since the run began, and only those, in folders of any size."""

import os
import shutil
import time
from pathlib import Path

import pytest

from core.metrics.files.finder import AT_ONCE, MAX_DEPTH, MAX_ENTRIES, MetricFileFinder
from core.metrics.files.record_logs import CsvFile
from tests.support.waiting import PATIENCE_S

LONG_AGO = 1_000_000_000


def write(path: Path, text: str = "step,loss\n1,2\n", *, at: float | None = None) -> Path:
    """Write a file and its parent folders; `at` is its modification time in unix seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if at is not None:
        os.utime(path, (at, at))
    return path


def finder(folder: Path, **options: object) -> MetricFileFinder:
    """Return a finder for a run that begins now; it has remembered the existing files."""
    found = MetricFileFinder([folder], time.time(), **options)
    found.remember(PATIENCE_S)
    return found


def test_new_metric_files_are_found_once(tmp_path: Path) -> None:
    looking = finder(tmp_path)
    wanted = {
        write(tmp_path / "runs" / "Nov22" / "events.out.tfevents.1700000000.host.1.0", "x"),
        write(tmp_path / "lightning_logs" / "version_0" / "metrics.csv", "epoch,lr-Adam,step,train_loss\n"),
        write(tmp_path / "training.csv", "epoch;accuracy;val_loss\n"),
        write(tmp_path / "log.jsonl", '{"args": {"lr": 1}}\n{"step": 1, "train_loss": 2}\n'),
        write(tmp_path / "out" / "metrics.json", '{"iteration": 1, "total_loss": 2}\n'),
    }
    assert set(looking.search(PATIENCE_S)) == wanted
    assert looking.search(PATIENCE_S) == []
    assert all(looking.offset(path) == 0 for path in wanted)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("iris.csv", "sepal_length,sepal_width,species\n5.1,3.5,setosa\n"),
        ("glossary.csv", "glossy,floss\n1,2\n"),
        ("numbers.csv", "1,2\n3,4\n"),
        ("loss.csv", "step,loss"),  # its first line is not complete yet
        ("empty.csv", ""),
        ("texts.jsonl", '{"text": "the loss was 3", "label": 1}\n'),
        ("events.jsonl", '{"t": 1.0, "kind": "metrics", "first": 1, "values": {"loss": [1, 2]}}\n'),
        ("config.json", '{"loss": 1}\n'),
        ("log.txt", "step,loss\n1,2\n"),
        (".hidden.csv", "step,loss\n1,2\n"),
        ("pipe.csv", os.mkfifo),
        ("events.out.tfevents.1.host", os.mkfifo),
        ("zero.jsonl", lambda path: path.symlink_to("/dev/zero")),
        ("folder.csv", Path.mkdir),
    ],
)
def test_what_is_no_file_with_training_metrics_is_ignored(tmp_path, name, text) -> None:
    looking = finder(tmp_path)
    if isinstance(text, str):
        write(tmp_path / name, text)
    else:
        text(tmp_path / name)
    assert looking.search(PATIENCE_S) == []


def test_csv_is_found_once_its_header_names_a_metric(tmp_path: Path) -> None:
    looking = finder(tmp_path)
    path = write(tmp_path / "metrics.csv", "epoch,lr")
    assert looking.search(PATIENCE_S) == []
    write(path, "epoch,lr\n0,1\n")
    assert looking.search(PATIENCE_S) == []
    write(path, "epoch,lr,loss\n0,1,\n")
    assert looking.search(PATIENCE_S) == [path]


def test_existing_file_is_found_when_it_grows_and_read_from_its_old_end(tmp_path: Path) -> None:
    still, grown = write(tmp_path / "still.csv", at=LONG_AGO), write(tmp_path / "grown.csv")
    looking = finder(tmp_path)
    assert looking.search(PATIENCE_S) == []
    with grown.open("a") as file:
        file.write("2,1\n")
    assert looking.search(PATIENCE_S) == [grown]
    (reading,) = CsvFile(grown, looking.offset(grown)).poll()
    assert (reading.step, reading.values) == (2, {"loss": 1.0})
    forgetful = MetricFileFinder([tmp_path], time.time())  # which goes by the modification times
    fresh = write(tmp_path / "fresh.csv")
    assert set(forgetful.search(PATIENCE_S)) == {grown, fresh}
    os.utime(still)
    assert looking.search(PATIENCE_S) == [fresh]


@pytest.mark.parametrize("text", ["step,loss\n1,7\n2,6\n3,5\n", "step,loss\n", "step,loss\n1,9\n"])
def test_rewritten_log_is_read_from_its_beginning(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "metrics.csv", "step,loss\n1,3\n2,2\n")
    looking = finder(tmp_path)
    write(path, text)
    assert looking.search(PATIENCE_S) == [path]
    assert looking.offset(path) == 0


def test_excluded_hidden_and_too_deep_folders_are_not_searched(tmp_path: Path) -> None:
    looking = finder(tmp_path, without=[tmp_path / "run" / "events", tmp_path / "own.jsonl"])
    for folder in (".git", "node_modules", "site-packages", "__pycache__", ".hidden", "run/events"):
        write(tmp_path / folder / "below" / "metrics.csv")
    write(tmp_path / "own.jsonl", '{"loss": 1}\n')
    deep = tmp_path.joinpath(*"abcdefghij"[: MAX_DEPTH + 1])
    write(deep / "metrics.csv")
    found = write(deep.parent / "metrics.csv")
    assert looking.search(PATIENCE_S) == [found]


def test_symlinks_are_followed_without_loops(tmp_path: Path) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    looking = finder(work)
    (work / "runs").symlink_to(other)
    (other / "back").symlink_to(work)
    (work / "self").symlink_to(work)
    (work / "nowhere").symlink_to(tmp_path / "nothing")
    (work / "loop.csv").symlink_to(work / "loop.csv")
    write(other / "metrics.csv")
    assert looking.search(PATIENCE_S) == [work / "runs" / "metrics.csv"]


def test_folder_may_be_created_later_and_removed(tmp_path: Path) -> None:
    work = tmp_path / "work"
    looking = finder(work)
    assert looking.search(PATIENCE_S) == []
    path = write(work / "metrics.csv")
    assert looking.search(PATIENCE_S) == [path]
    shutil.rmtree(work)
    assert looking.search(PATIENCE_S) == []


def test_search_stops_at_its_time_limit_and_the_next_continues(tmp_path: Path) -> None:
    ticks = iter(range(10**9))
    looking = MetricFileFinder([tmp_path], time.time(), clock=lambda: float(next(ticks)))
    wanted = {write(tmp_path / f"folder{number}" / "metrics.csv") for number in range(30)}
    looks = [looking.search(5.0) for _ in range(30)]
    assert max(map(len, looks)) <= 5
    assert {path for look in looks for path in look} == wanted
    assert sum(map(len, looks)) == len(wanted)
    looking = MetricFileFinder([tmp_path], time.time(), clock=lambda: float(next(ticks)))
    begun = looking.search(2.0)  # stops in the middle of a search
    path = write(tmp_path / "metrics.csv")
    assert path not in looking.search(2.0)
    assert {path} <= {*looking.search_all(PATIENCE_S)} <= {path, *wanted} - {*begun}, "a complete new search"


def test_log_among_many_pictures_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3 * AT_ONCE):
        (tmp_path / f"{number}.png").touch()
    looking = finder(tmp_path)
    path = write(tmp_path / "zz.csv")
    monkeypatch.setattr("core.metrics.files.finder.MAX_ENTRIES", 10)
    assert looking.search(PATIENCE_S) == [path]


def test_folder_is_searched_that_is_added_later(tmp_path: Path) -> None:
    looking = finder(tmp_path / "here")
    path = write(tmp_path / "elsewhere" / "metrics.csv")
    assert looking.search(PATIENCE_S) == []
    looking.add(path.parent)
    looking.add(path.parent)
    assert looking.search(PATIENCE_S) == [path]
    assert not looking.is_full


def test_new_folders_are_searched_before_old_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        write(tmp_path / "data" / f"{number}" / "picture.png", at=LONG_AGO)
    for folder in (tmp_path / "data", *(tmp_path / "data").iterdir()):
        os.utime(folder, (LONG_AGO, LONG_AGO))
    looking = finder(tmp_path)
    path = write(tmp_path / "outputs" / "2026" / "run" / "tb" / "metrics.csv")
    assert MAX_ENTRIES > 30
    monkeypatch.setattr("core.metrics.files.finder.MAX_ENTRIES", 10)
    assert looking.search(PATIENCE_S) == [path]
