"""Runs are locked through a file that is open for writing; where that fails, the file system is named."""

import errno
import fcntl
import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import RunError
from core.history import removal
from core.runs import lock
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.paths import EVENTS
from core.system.procfs import mount_of
from tests.support.commands import call
from tests.support.running import FOREVER, LONG, make_spec, start, write_recipe

NO_LOCKS = (errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def flock_failing(number: int, *, only_folders: bool) -> Callable[[int, int], None]:
    real = fcntl.flock

    def flock(handle: int, operation: int) -> None:
        if not only_folders or Path(f"/proc/self/fd/{handle}").is_dir():
            raise OSError(number, os.strerror(number))
        real(handle, operation)

    return flock


@pytest.mark.parametrize("number", NO_LOCKS)
def test_file_system_without_locks_is_named(tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", flock_failing(number, only_folders=False))
    gc.collect()  # files of earlier tests
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(RunError) as caught:
        lock.take(tmp_path)
    mount = mount_of(tmp_path)
    assert str(caught.value).startswith(
        f"{tmp_path} cannot be locked: {os.strerror(number)}. The file system at {mount.point} ({mount.kind}) has no "
        "file locks, without which two processes could train one run. Keep runs on another disk with --runs DIR, or "
    )
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before


@pytest.mark.parametrize("number", NO_LOCKS)
def test_folder_that_cannot_be_locked_is_held_by_its_file(tmp_path: Path, number: int, monkeypatch) -> None:
    """As on NFS, where only a file that is open for writing can be locked."""
    monkeypatch.setattr(fcntl, "flock", flock_failing(number, only_folders=True))
    first = lock.take(tmp_path)
    assert lock.take(tmp_path) is None
    first.release()
    again = lock.take(tmp_path)
    again.release()


def test_lock_of_the_folder_alone_is_respected(tmp_path: Path) -> None:
    """Earlier versions locked the folder alone."""
    handle = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    assert lock.take(tmp_path) is None
    os.close(handle)


@pytest.mark.parametrize("what", ["link", "fifo", "folder"])
def test_something_else_in_the_place_of_the_lock_is_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / "lock"
    victim = tmp_path / "victim"
    victim.write_text("kept")
    {"link": lambda: path.symlink_to(victim), "fifo": lambda: os.mkfifo(path), "folder": path.mkdir}[what]()
    with pytest.raises(RunError, match="could not be written"):
        lock.take(tmp_path)
    assert victim.read_text() == "kept"


def test_run_without_lock_files_is_resumed_and_removed(runs_root: Path, tmp_path: Path) -> None:
    followed = start(make_spec(write_recipe(tmp_path, LONG), epochs=FOREVER), runs_root).until_trained(1)
    followed.run.request("stop")
    run_dir = followed.until_left().run.dir
    for folder in (run_dir, run_dir / EVENTS):
        (folder / "lock").unlink()
    again = type(followed)(Run.resume(run_dir)).until(RunState.RUNNING)
    assert lock.take(run_dir) is None
    again.run.request("stop")
    again.until_left()
    assert removal.remove(run_dir).problem == ""
    assert not run_dir.exists()


def test_command_names_the_file_system_and_starts_no_run(runs_root: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    recipe = write_recipe(tmp_path, LONG)
    monkeypatch.setattr(fcntl, "flock", flock_failing(errno.ENOLCK, only_folders=False))
    code, _, err = call(capsys, "run", recipe, "--devices", "cpu:0", "--runs", runs_root)
    assert code == 2
    assert "cannot be locked: No locks available. The file system at " in err
    assert "Traceback" not in err
    assert list(runs_root.iterdir()) == []
