"""The socket folder of data-loader workers: removed with the worker, or by the later clean-up."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.runs.directory import remove_sockets
from tests.support.worker_pool import WorkerPools

CODE = """
    import multiprocessing, os, pathlib, signal, sys
    from multiprocessing.util import get_temp_dir
    from core.worker.pytorch.task.data import share_socket_folder

    def load(answer):
        answer.send(get_temp_dir())
        os.kill(os.getpid(), signal.SIGKILL)

    share_socket_folder(pathlib.Path(sys.argv[1]))
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe()
    loader = context.Process(target=load, args=(writer,))
    loader.start()
    print(reader.recv(), flush=True)
    loader.join()
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def used(pools: WorkerPools, folder: Path, temporary: Path, how: str = "") -> Path:
    """Return the socket folder that a data-loader worker of the run in `folder` uses."""
    status = -signal.SIGKILL if how == "killed" else 0
    return Path(pools.run("torch", CODE, folder, how, environment={"TMPDIR": str(temporary)}, status=status).strip())


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@pytest.fixture
def run_dir() -> Iterator[Path]:
    """A folder directly in the system's temporary folder: the path of `tmp_path` may be too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="run-") as folder:
        yield Path(folder)


def test_killed_data_loader_worker_leaves_no_socket_folder(pools: WorkerPools, run_dir: Path, temporary: Path) -> None:
    assert used(pools, run_dir, temporary).parent == run_dir
    assert not list(run_dir.iterdir())
    assert not list(temporary.iterdir())


def test_socket_folder_of_a_killed_worker_is_removed_from_the_run_folder(pools, run_dir, temporary) -> None:
    left = used(pools, run_dir, temporary, "killed")
    assert list(run_dir.iterdir()) == [left]
    assert not list(temporary.iterdir())
    remove_sockets(run_dir)
    assert not list(run_dir.iterdir())


def test_socket_folder_falls_back_to_system_temp_if_path_is_too_long(pools, temporary, tmp_path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    assert used(pools, deep, temporary).parent == temporary
    assert not list(deep.iterdir())
    assert not list(temporary.iterdir())
