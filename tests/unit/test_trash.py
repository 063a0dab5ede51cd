"""Runs that were deleted and can be restored: what is no part of them, and what happens at the same time."""

import os
from pathlib import Path

import pytest

from core.errors import RunError
from core.history import trash
from core.runs import lock
from tests.support.written_runs import write_run

OLD = 1_000_000_000.0


def test_what_a_link_leads_to_was_not_deleted(tmp_path: Path) -> None:
    (runs := tmp_path / "runs").mkdir()
    (mine := tmp_path / "mine").mkdir()
    run_dir = write_run(mine, "20260101-000000-run")
    os.utime(run_dir, (OLD, OLD))
    (runs / trash.FOLDER).symlink_to(mine)
    assert trash.kept(runs) == []
    trash.purge(runs)
    assert run_dir.is_dir()
    (runs / trash.FOLDER).unlink()
    (runs / trash.FOLDER).mkdir()
    (runs / trash.FOLDER / "link").symlink_to(run_dir)
    assert trash.kept(runs) == []


def test_a_run_is_never_in_the_folder_with_an_older_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = write_run(tmp_path, "20260101-000000-run")
    lock.prepare(run_dir)
    os.utime(run_dir, (OLD, OLD))
    rename = Path.rename

    def seen(path: Path, target: Path) -> Path:
        assert path.stat().st_mtime != OLD, "another window would remove it now"
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", seen)
    assert trash.put(run_dir).kept == trash.place(run_dir)
    assert trash.place(run_dir).is_dir()
    again = write_run(tmp_path, run_dir.name)
    assert trash.put(again).problem.endswith("Directory not empty. Change that, or delete it for good.")
    assert again.is_dir()


def test_a_run_that_is_being_removed_for_good_is_not_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = write_run(tmp_path, "20260101-000000-run")
    deleted = trash.put(run_dir).kept
    assert deleted is not None
    monkeypatch.setattr(lock, "PATIENCE_S", 0.0)
    with lock.held(deleted), pytest.raises(RunError):
        trash.restore(deleted)
    assert trash.restore(deleted) == run_dir
