"""The index of runs in the user's cache folder: whatever happens to it, the list of runs is right."""

import json
import math
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from core.cli import runs as runs_module
from core.history import index as index_module
from core.history.index import RunIndex, all_runs
from core.history.marks import change_marks, rename
from core.history.summary import RunSummary
from core.history.summary_cache import FORMAT, CachedSummary, SummaryCache, default_file
from core.runs.facts import RunState
from core.schema.event_kinds import Plan, Verdict
from tests.support.commands import call
from tests.support.written_runs import BEGAN, values, write_run

COUNT = 110
"""More than `MIN_CACHED`."""


def write_runs(root: Path, count: int = COUNT, first: int = 0) -> None:
    """Write finished runs, and some that failed; quickly, from one that is really written."""
    model = write_run(root / "model", "run", [values(1, 1, 2, loss=[2.0, 1.0])])
    failed = [{"t": BEGAN + at, "kind": "state", "state": state} for at, state in ((0, "starting"), (3, "failed"))]
    for number in range(first, first + count):
        run_dir = root / f"20260101-{number:06}-run-{number:04}"
        (run_dir / "events").mkdir(parents=True)
        (run_dir / "spec.json").write_bytes((model / "spec.json").read_bytes())
        os.utime(run_dir / "spec.json", (BEGAN, BEGAN))  # a run that was just made could still come up
        if number % 10 == 9:
            lines = "".join(json.dumps(line) + "\n" for line in failed)
            (run_dir / "events" / "supervisor.jsonl").write_text(lines)
            continue
        for file in (model / "events").iterdir():
            (run_dir / "events" / file.name).write_bytes(file.read_bytes())
    shutil.rmtree(root / "model")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("many")
    write_runs(root)
    return root


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    """Many runs whose summaries are cached."""
    copy = tmp_path / "runs"
    shutil.copytree(template, copy)
    assert len(all_runs(copy)) == COUNT
    assert default_file().exists()
    return copy


def truth(root: Path) -> list[RunSummary]:
    """The summaries without any index."""
    return RunIndex(root).poll()


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Note the runs that are read from now on."""
    read: list[Path] = []
    reader = index_module.SummaryReader

    class Counting(reader):  # type: ignore[valid-type,misc]
        def __init__(self, path: Path) -> None:
            read.append(path)
            super().__init__(path)

    monkeypatch.setattr(index_module, "SummaryReader", Counting)
    return read


def test_what_has_changed_is_read_again(root: Path) -> None:
    names = sorted(path.name for path in root.iterdir())
    rename(root / names[0], "another name")
    change_marks(root / names[1], star=True, add_tags=["baseline"], note="a note")
    shutil.rmtree(root / names[2])
    (root / names[3] / "spec.json").unlink()
    write_runs(root, 2, first=COUNT)
    with (root / names[9] / "events" / "supervisor.jsonl").open("a") as file:  # a failed run that was resumed
        for at, state in ((10, "starting"), (11, "running"), (12, "releasing"), (13, "finished")):
            file.write(json.dumps({"t": BEGAN + at, "kind": "state", "state": state}) + "\n")
    found = all_runs(root)
    assert found == truth(root)
    assert len(found) == COUNT
    by_name = {each.dir.name: each for each in found}
    assert by_name[names[0]].name == "another name"
    assert by_name[names[1]].marks.tags == ("baseline",)
    assert by_name[names[9]].state is RunState.FINISHED
    assert not {names[2], names[3]} & SummaryCache(root).load()[0].keys(), "the index forgets what is gone"
    assert all_runs(root) == found


def test_two_roots_do_not_mix_and_a_few_runs_need_no_index(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(root, other)
    rename(min(other.iterdir()), "of the other root")
    assert all_runs(other) == truth(other)
    assert all_runs(root) == truth(root)
    shutil.rmtree(other)
    assert all_runs(other) == []
    assert all_runs(root) == truth(root)
    default_file().unlink()
    write_runs(other, 5)
    assert len(all_runs(other)) == 5
    shutil.rmtree(next(other.iterdir()))
    assert len(all_runs(other)) == 4
    assert not default_file().exists()


def execute(statement: str) -> None:
    with closing(sqlite3.connect(default_file())) as database, database:
        database.execute(statement)


def put(cut: Callable[[bytes], bytes]) -> None:
    default_file().write_bytes(cut(default_file().read_bytes()))


HARMS: dict[str, Callable[[], object]] = {
    "delete": lambda: default_file().unlink(),
    "empty": lambda: put(lambda _: b""),
    "text": lambda: put(lambda _: b"not a database"),
    "bytes": lambda: put(lambda data: data[:4096] + random.Random(0).randbytes(len(data) - 4096)),
    "cut": lambda: put(lambda data: data[: len(data) // 2]),
    "folder": lambda: (default_file().unlink(), default_file().mkdir()),
    "version": lambda: execute(f"PRAGMA user_version = {FORMAT + 1}"),
    "table": lambda: execute("DROP TABLE runs"),
    "columns": lambda: execute("ALTER TABLE runs RENAME COLUMN mark TO something"),
    "rows": lambda: execute("UPDATE runs SET summary = '[1, 2, 3]'"),
    "json": lambda: execute("UPDATE runs SET summary = '{' || summary"),
}


@pytest.mark.parametrize("damage", HARMS)
def test_a_damaged_index_is_made_again(root: Path, damage: str, monkeypatch) -> None:
    HARMS[damage]()
    expected = truth(root)
    assert all_runs(root) == expected
    assert all_runs(root) == expected
    if damage != "folder":  # which is no file of ours: it stays, and the list does without
        read = count_reads(monkeypatch)
        assert all_runs(root) == expected
        assert read == []
        assert default_file().stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", ["delete", "version", "text"])
def test_an_index_that_is_harmed_between_two_pages_costs_no_run(root: Path, damage: str, monkeypatch) -> None:
    monkeypatch.setattr(index_module, "PAGE", 7)
    expected = truth(root)
    index = RunIndex(root, cache=SummaryCache(root))
    assert index.poll(0.0) == expected[:7]
    HARMS[damage]()
    assert index.poll() == expected
    assert all_runs(root) == expected


def test_a_cache_folder_that_is_full_or_cannot_be_written_is_done_without(
    root: Path, small_disk: Path, tmp_path: Path, monkeypatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRAINYARD_CACHE_DIR", str(tmp_path / "file" / "cache"))
    expected = truth(root)
    assert all_runs(root) == expected
    monkeypatch.setenv("TRAINYARD_CACHE_DIR", str(small_disk))
    with (small_disk / "ballast").open("wb") as file:
        file.write(b"x" * (1024 * 1024 - 3 * 4096))
    assert all_runs(root) == expected
    assert all_runs(root) == expected
    (small_disk / "ballast").unlink()
    assert all_runs(root) == expected
    read = count_reads(monkeypatch)
    assert all_runs(root) == expected
    assert read == [], "as soon as there is room, it is kept"


def _write_for_ever(root: Path) -> None:
    while True:
        index = RunIndex(root, cache=SummaryCache(root))
        index.poll()
        index._unsaved.update(index._over)
        index.save()


@pytest.mark.slow
def test_writers_that_are_killed_at_any_moment_lose_nothing(root: Path) -> None:
    expected, moments = truth(root), random.Random(0)
    context = multiprocessing.get_context("fork")
    for _ in range(12):
        writers = [context.Process(target=_write_for_ever, args=(root,)) for _ in range(2)]
        for writer in writers:
            writer.start()
        time.sleep(moments.uniform(0.0, 0.12))  # the moment is what is tested; nothing is waited for
        if moments.random() < 0.3:
            default_file().unlink(missing_ok=True)  # while it is read and written
        for writer in writers:
            assert writer.pid is not None
            os.kill(writer.pid, signal.SIGKILL)
            writer.join()
        assert all_runs(root) == expected
    cache = SummaryCache(root)
    assert cache.load()[0].keys() == {each.dir.name for each in expected}


@pytest.mark.slow
def test_several_writers_at_once_keep_everything(root: Path) -> None:
    default_file().unlink()
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=all_runs, args=(root,)) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert SummaryCache(root).load()[0].keys() == {each.dir.name for each in truth(root)}


def test_a_locked_index_is_not_waited_for(root: Path) -> None:
    database = sqlite3.connect(default_file(), isolation_level=None)
    database.execute("BEGIN EXCLUSIVE")
    try:
        index = RunIndex(root, cache=SummaryCache(root))
        first = index.poll(0.0)  # which returns although the other program still has the lock
        assert len(first) >= 20
        assert index.left == COUNT - len(first) > 0
    finally:
        database.close()
    while index.left:
        found = index.poll(0.05)
    assert found == truth(root)


def test_with_a_budget_the_newest_come_first_and_all_in_the_end(root: Path) -> None:
    default_file().unlink()
    index = RunIndex(root, cache=SummaryCache(root))
    assert index.poll(60.0, is_stopped=lambda: True) == [], "it ends soon when it is stopped"
    assert index.left == COUNT
    expected, sizes = truth(root), []
    while not sizes or index.left:
        found = index.poll(0.0)
        assert found == expected[: len(found)], "the newest first"
        assert len(found) + index.left == index.total == COUNT
        sizes.append(len(found))
    assert sizes == sorted(set(sizes))
    assert len(sizes) > 3
    assert found == expected


def test_a_command_reports_how_many_runs_it_has_read_and_keeps_them(root: Path, monkeypatch) -> None:
    default_file().unlink()
    monkeypatch.setattr(index_module, "PROGRESS_S", 0.0)

    def interrupt(done: int, _: int) -> None:
        if done >= index_module.MIN_CACHED:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        all_runs(root, interrupt)
    assert len(SummaryCache(root).load()[0]) >= index_module.MIN_CACHED
    default_file().unlink()
    said: list[tuple[int, int]] = []
    assert all_runs(root, lambda *numbers: said.append(numbers)) == truth(root)
    assert {every for _, every in said} == {COUNT}
    assert [done for done, _ in said] == sorted({done for done, _ in said})
    assert len(said) > 3
    said.clear()
    assert all_runs(root, lambda *numbers: said.append(numbers)) == truth(root)
    assert {done for done, _ in said} <= {COUNT}, "nothing is read that the index has"


def test_a_terminal_and_one_line_elsewhere_show_how_many_runs_are_read(root: Path, capsys, monkeypatch) -> None:
    default_file().unlink()
    monkeypatch.setattr(index_module, "PROGRESS_S", 0.0)
    monkeypatch.setattr(runs_module, "SILENT_S", float("inf"))
    assert "runs read" not in call(capsys, "runs", "--runs", root)[2], "elsewhere only if it takes long"
    default_file().unlink()
    monkeypatch.setattr(runs_module, "SILENT_S", 0.0)
    (line,) = call(capsys, "runs", "--runs", root)[2].splitlines()
    assert line.endswith(f" of {COUNT} runs read")
    default_file().unlink()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    code, out, err = call(capsys, "runs", "--runs", root)
    assert (code, len(out.splitlines())) == (0, COUNT + 1)
    assert f"of {COUNT} runs read" in err
    assert err.endswith("\r\033[K"), "the line is taken away"


def test_pages_of_the_cache_become_the_whole(root: Path, monkeypatch) -> None:
    monkeypatch.setattr(index_module, "PAGE", 7)
    expected, read = truth(root), count_reads(monkeypatch)
    index = RunIndex(root, cache=SummaryCache(root))
    assert index.poll(0.0) == expected[:7]
    assert index.left == COUNT - 7, "the others may be in the cache"
    assert (index.poll(0.0), index.left) == (expected[:14], COUNT - 14)
    assert index.poll() == expected
    assert not index.busy
    assert read == []


def test_with_a_budget_cached_runs_are_checked_bit_by_bit(root: Path) -> None:
    names = sorted(path.name for path in root.iterdir())
    rename(root / names[0], "another name")  # the last one that is looked at
    index = RunIndex(root, cache=SummaryCache(root))
    found = index.poll(0.0)
    assert len(found) == COUNT, "all at once"
    while index.busy:
        found = index.poll(0.0)
    assert found[-1].name == "another name"
    assert found == truth(root)


def test_every_field_survives(tmp_path: Path) -> None:
    summary = RunSummary(
        dir=tmp_path / "run", name="käse-🧀", state=RunState.FAILED, started=1.5, ended=2.5, error="x\ny",
        last_loss=-math.inf, step=2**40, plan=Plan(epochs=1, steps_per_epoch=2, samples_per_epoch=3), is_script=True,
        owner="anna", mean_loss=0.1, best_validation=(7, 0.25), kept_loss=0.5, renamed=True,
        verdict=Verdict.HELD_BY_OTHERS,
        settings={"a": None, "b": True, "c": 1e-300, "d": "text", "e": 5},
    )
    change_marks(write_run(tmp_path, "run"), star=True, archived=True, add_tags=["one"], note="a\nb")
    (marked,) = RunIndex(tmp_path).poll()
    summary = replace(summary, marks=marked.marks)
    mark, folders = ((1, 2**62), None), ((3, 4), (5, 6), None)
    cache = SummaryCache(tmp_path)
    strange = replace(summary, name="\ud800", dir=tmp_path / "strange")
    assert cache.save({"run": CachedSummary(summary, mark, folders), "strange": CachedSummary(strange, mark, folders)})
    loaded, _ = cache.load()
    assert loaded["run"].summary == summary
    assert (loaded["run"].mark, loaded["run"].folders) == (mark, folders)
    assert cache.load("run") == ({}, None), "a name that is not smaller"
