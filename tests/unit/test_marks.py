"""Stars, tags, notes and the archive of runs."""

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from core.errors import RunError
from core.history import marks as module
from core.history.index import RunIndex
from core.history.marks import MAX_BYTES, MAX_NOTE, NO_MARKS, ChangedRuns, change_marks, note_change, read_marks, rename
from core.schema.paths import MARKS_FILE
from core.system.folders import cache_folder
from tests.support.written_runs import values, write_run


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return write_run(tmp_path, "20260101-000000-run-0000", [values(1, 1, 2, loss=[2.0, 1.0])])


def test_what_is_given_is_read_again_and_notes_are_kept(run_dir: Path) -> None:
    assert read_marks(run_dir) == change_marks(run_dir) == NO_MARKS
    assert not (run_dir / MARKS_FILE).exists(), "without a change nothing is written"
    change_marks(run_dir, star=True, add_tags=["baseline", " v2 "], note=" first ")
    change_marks(run_dir, note="second\nline", archived=True, remove_tags=["baseline"], add_tags=["v2", "v3"])
    found = change_marks(run_dir, star=False)
    assert (found.star, found.archived, found.tags) == (False, True, ("v2", "v3"))
    assert [note.text for note in found.notes] == ["first", "second\nline"]
    assert read_marks(run_dir) == found
    assert (run_dir / MARKS_FILE).stat().st_mode == (run_dir / "spec.json").stat().st_mode


def _tag(run_dir: Path, writer: int) -> None:
    for number in range(20):
        change_marks(run_dir, add_tags=[f"{writer}-{number}"], note=f"{writer} {number}")


def test_several_processes_lose_nothing(run_dir: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_tag, args=(run_dir, writer)) for writer in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found = read_marks(run_dir)
    assert set(found.tags) == {f"{writer}-{number}" for writer in range(4) for number in range(20)}
    assert len(found.notes) == 80


def test_a_line_that_was_cut_off_costs_no_other(run_dir: Path) -> None:
    change_marks(run_dir, add_tags=["one"])
    with (run_dir / MARKS_FILE).open("ab") as file:
        file.write(b'{"t": 1, "kind": "mark", "ta')
    found = change_marks(run_dir, add_tags=["two"])
    assert found.tags == ("one", "two")
    assert json.loads((run_dir / MARKS_FILE).read_text().splitlines()[-1])["tags"] == ["two"]


@pytest.mark.parametrize(
    "line",
    [
        {"star": 3, "archived": "x", "tags": [1, None, "kept"], "note": ["x"]},
        {"star": True, "tags": "abc", "untag": 5},
        {"note": "x" * 100_000},
        {"tags": ["x" * 1000] * 5000},
    ],
)
def test_a_planted_file_is_read_without_harm(run_dir: Path, line: dict[str, object]) -> None:
    (run_dir / MARKS_FILE).write_text(json.dumps({"t": 1.0, "kind": "mark", **line}) + "\n[]\nnull\n{}\n")
    found = read_marks(run_dir)
    assert found.archived is False
    assert all(len(tag) <= module.MAX_TAG for tag in found.tags)
    assert all(len(note.text) <= MAX_NOTE for note in found.notes)
    os.truncate(run_dir / MARKS_FILE, 100 * MAX_BYTES)
    assert read_marks(run_dir) == found, "a huge file is read in part"
    (run_dir / MARKS_FILE).unlink()
    (run_dir / MARKS_FILE).symlink_to("/dev/zero")
    assert read_marks(run_dir) == NO_MARKS


@pytest.mark.parametrize(
    ("change", "words"),
    [
        *(({"add_tags": [tag], "star": True}, r"cannot be a tag\. Give up to 50 characters without spaces")
          for tag in ("", " ", "two words", "a,b", "x" * 51, "line\nbreak", '"quoted"', "\x1b[2J")),
        ({"remove_tags": ["v9"]}, "has no tag v9"),
        ({"note": "x" * 4001}, r"The note has 4001 characters\. Give at most 4000\."),
        ({"add_tags": [f"t{number}" for number in range(101)]}, "A run can have 100 tags"),
    ],
)
def test_refusals_are_sentences(run_dir: Path, change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        change_marks(run_dir, **change)
    assert read_marks(run_dir) == NO_MARKS, "nothing of it was done"


def test_run_of_another_user_is_not_marked_and_a_full_disk_is_one_sentence(run_dir: Path, monkeypatch) -> None:
    with monkeypatch.context() as full:
        full.setattr(module.os, "write", lambda handle, data: 1)
        with pytest.raises(RunError, match="Free some space"):
            change_marks(run_dir, star=True)
    monkeypatch.setattr(module, "owner_of_run", lambda run_dir: "anna")
    with pytest.raises(ValueError, match=r"belongs to anna\. Only its owner can mark it\."):
        change_marks(run_dir, star=True)


def test_a_long_list_of_runs_takes_marks_and_names_in_at_its_next_poll(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("core.history.index.NEWEST", 1)
    monkeypatch.setattr("core.history.index.LOOKED_AT", 1)
    monkeypatch.setattr("core.history.index.LOOK_S", 0.0)
    runs = [
        write_run(tmp_path / "runs", f"20260101-0000{at:02}-run-0000", [values(1, 1, 1, loss=[2.0])])
        for at in range(20)
    ]
    index = RunIndex(tmp_path / "runs")
    index.poll()
    change_marks(runs[5], star=True)
    rename(runs[3], "other")
    found = {each.dir: each for each in index.poll()}
    assert found[runs[5]].marks.star
    assert found[runs[3]].name == "other"
    assert not found[runs[4]].marks.star
    change_marks(runs[5], add_tags=["one"])  # which does not change the folder, only the file
    assert next(each for each in index.poll() if each.dir == runs[5]).marks.tags == ("one",)


def test_what_tells_of_changes_stays_small_and_may_be_damaged_or_missing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(module, "MAX_CHANGES_BYTES", 200)
    root = tmp_path / "runs"
    names = [f"run-{at}" for at in range(30)]
    told = ChangedRuns(root)
    for name in names:
        note_change(root / name)
        assert told.names() == [name], "also where a new file was begun"
    note_change(tmp_path / "elsewhere" / "run-0")
    assert told.names() == []
    file = cache_folder() / "changed-runs.jsonl"
    assert file.stat().st_size < 200 + len(str(root)) + 50
    with file.open("a") as opened:
        opened.write('[1]\nno JSON\n"\\u0000"\n')
    note_change(root / "run-7")
    assert told.names() == ["run-7"]
    file.unlink()
    assert told.names() == []
    monkeypatch.setenv("TRAINYARD_CACHE_DIR", str(tmp_path / "a file"))
    (tmp_path / "a file").touch()
    note_change(root / "run-8")  # no error: the list looks at the run in turn
    assert ChangedRuns(root).names() == []


def test_marks_given_before_all_validations_were_found_are_taken_in(run_dir: Path) -> None:
    with (run_dir / "events" / "worker-0.jsonl").open("a") as file:
        for number in range(15_000):
            file.write(json.dumps(values(3 + number, 3, 3, val_loss=[1 / (1 + number)]), separators=(",", ":")) + "\n")
    index = RunIndex(run_dir.parent, patience_s=0.0)
    index.poll()
    assert index._live, "it is not read to its end"
    change_marks(run_dir, add_tags=["one"])
    index._patience_s = None
    (summary,) = index.poll()
    assert not index._live
    assert summary.marks.tags == ("one",)
    assert summary.best_validation == (15_002, pytest.approx(1 / 15_000))
