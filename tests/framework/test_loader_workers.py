"""PyTorch data-loader workers that sleep for an hour and ignore signals end with their run."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.runs.facts import RunState
from core.schema.settings import StopTimeouts
from tests.process.test_stubborn_workers import WORKERS, nothing_left, sleepers
from tests.support.packages import needs_shared_memory
from tests.support.running import OWN_OPTIMIZER, make_spec, start, train, write_recipe
from tests.support.waiting import PATIENCE_S, wait_until

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
    wait_until(lambda: len(sleepers(tmp_path)) == WORKERS, "the data-loader workers to be asleep")
    pids = sleepers(tmp_path)
    followed.run.request("stop")
    wait_until(lambda: nothing_left(followed.run, pids), "all processes of the run to be gone")
    followed.until_over()
    assert followed.state is RunState.STOPPED
    assert {each.pid for each in followed.run.facts.ended_processes} == pids


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
