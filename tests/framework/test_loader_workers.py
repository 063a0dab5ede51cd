"""PyTorch data-loader workers end with their run, and leave no socket folder."""

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.event_kinds import Verdict
from core.schema.settings import StopTimeouts
from core.series import report
from core.supervisor.guard import remove_sockets
from core.system import processes
from tests.support.packages import needs_shared_memory
from tests.support.running import OWN_OPTIMIZER, make_spec, start, train, write_recipe
from tests.support.waiting import PATIENCE_S, wait_until
from tests.support.worker_pool import WorkerPools

WORKERS = 2

STUBBORN = """
import os, signal, time
from pathlib import Path

import torch
from torch import nn

def model():
    return nn.Linear(4, 2)

class Stubborn(torch.utils.data.Dataset):
    served = 0

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        self.served += 1
        if self.served > 32:  # a few batches, so that training is under way
            self.sleep()
        return torch.zeros(4), 1

    def sleep(self):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        (Path(__file__).parent / f"asleep-{os.getpid()}").touch()
        while True:
            time.sleep(3600)

def train_data():
    return Stubborn()
"""


@pytest.mark.e2e
@needs_shared_memory
def test_stop_terminates_stubborn_loader_workers_and_records_them(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "recipe", STUBBORN + OWN_OPTIMIZER, "stubborn")
    # The training process waits for its loader workers, so that SIGTERM ends it. SIGKILL would end them with it.
    graces = StopTimeouts(ask_s=1, interrupt_s=1, terminate_s=PATIENCE_S)
    spec = make_spec(recipe, epochs=1, batch_size=8, loader_workers=WORKERS, stop_timeouts=graces)
    followed = start(spec, runs_root).until_trained(1)
    wait_until(lambda: len(sleepers(recipe)) == WORKERS, "the data-loader workers to be asleep")
    pids = sleepers(recipe)
    followed.run.request("stop")
    wait_until(
        lambda: not processes.tagged(followed.run.id) and not any(map(psutil.pid_exists, pids)),
        "all processes of the run to be gone",
    )
    assert followed.until_over().state is RunState.STOPPED
    ended = followed.run.facts.ended_processes
    assert {each.pid for each in ended} == pids
    assert {(each.signal, each.by) for each in ended} == {("SIGKILL", "supervisor")}
    assert all(each.name and "python" in str(each.command) for each in ended)
    release = followed.run.facts.releases["cpu:0"]
    assert release.verdict is Verdict.RELEASED
    assert all(f"pid {pid}" in release.sentence for pid in pids), release.sentence
    shown = report.document(Run.attach(followed.run.dir))["release"]
    assert (shown["verdict"], {each["pid"] for each in shown["ended"]}) == ("released", pids)


def sleepers(recipe: str) -> set[int]:
    return {int(path.name.partition("-")[2]) for path in Path(recipe).parent.glob("asleep-*")}


FAILING = """
import torch

def model():
    return torch.nn.Linear(4, 2)

def train_data():
    return [(torch.zeros(4), 1)] * 64

def collate(items):
    raise KeyError("no such field")

def training_step(model, batch):
    return model(batch).sum()
"""


@pytest.mark.slow
@pytest.mark.e2e
@needs_shared_memory
def test_loader_workers_end_with_a_worker_that_fails(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, FAILING + OWN_OPTIMIZER, "failing")
    failed = train(make_spec(recipe, batch_size=16, loader_workers=2), runs_root)
    assert failed.failure == "Worker 0 on cpu:0: KeyError: 'no such field'."
    assert failed.run.facts.notices == ()


# -- sockets -------------------------------------------------------------------------------------

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
