"""Runs over two machines, through a real ssh server: one curve, over a pause.

Each run starts PyTorch twice, cold: about ten seconds of processor time. So `tests/process/test_lost_machines.py`,
about connections that are cut and machines that are lost, has the fake worker.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from core.hosts.inquiry import devices_of
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema import checkpoint
from tests.support.running import Followed, make_spec, source_spec, start, train
from tests.support.ssh_server import SshServer
from tests.support.two_hosts import AWAY, descent_losses, follows_the_curve_of, over_hosts, parts

pytestmark = [pytest.mark.e2e(pooled=True), pytest.mark.usefixtures("added_host")]
DESCENT = """\
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
print("agent store", os.environ["TORCHELASTIC_USE_AGENT_STORE"])
rank, size = dist.get_rank(), dist.get_world_size()
x = torch.arange(1.0, 9.0)[rank::size]
weight = torch.zeros(())
for step in range(1, 21):
    error = weight * x - 3 * x
    found = torch.stack([(error**2).sum(), (2 * x * error).sum()])
    dist.all_reduce(found)
    print(f"step {step} loss {found[0].item() / 8:.8f}", flush=True)
    weight -= 0.01 * found[1] / 8
dist.destroy_process_group()
"""
"""A program for torchrun: data parallel gradient descent by hand. An optimizer would take longer to load."""
SPEC = make_spec("digits_mlp", epochs=3, batch_size=100, checkpoints={"unit": "never"})


@pytest.fixture(scope="module")
def alone(pools: object, tmp_path_factory: pytest.TempPathFactory) -> Followed:
    """The finished run of one device."""
    return train(SPEC, tmp_path_factory.mktemp("alone"))


@pytest.mark.parametrize(
    ("strategy", "choices", "files"),
    [
        ("ddp", {"accumulation": 2}, {"model.pt", "random-0.pt", "random-1.pt"}),
        ("fsdp", {}, {"model.pt", "random-0.pt", "random-1.pt"}),
        ("pipeline", {"micro_batches": 2}, {"model-0.pt", "model-1.pt", "random-0.pt", "random-1.pt"}),
    ],
)
def test_two_machines_follow_the_curve_of_one_device_over_a_pause(
    server: SshServer, runs_root: Path, alone: Followed, strategy: str, choices: dict[str, int], files: set[str]
) -> None:
    """The files of both ranks are in the checkpoint, which reaches the other machine when the run is resumed.

    The last batch does not divide evenly.
    """
    spec = replace(over_hosts(SPEC), strategy=strategy, training=replace(SPEC.training, **choices))
    paused = start(spec, runs_root)
    assert paused.pause().state is RunState.PAUSED
    assert 0 < paused.run.facts.step < 15, "in the first epoch"
    (folder,) = checkpoint.folders(paused.run.dir)
    assert files <= {path.name for path in folder.iterdir()}
    assert parts(server) == []

    resumed = Followed(Run.resume(paused.run.dir)).until_over()
    follows_the_curve_of(alone, resumed, AWAY)
    assert len(resumed.losses()) == SPEC.training.epochs * 15
    facts = resumed.run.facts
    assert facts.devices[AWAY]["label"] == "one · CPU 1"
    assert any("trusted network only" in each for each in facts.notices)
    assert parts(server) == []
    assert devices_of([AWAY])[1].id == AWAY


def test_script_for_torchrun_over_machines_follows_the_curve_of_one_device(server, runs_root, tmp_path) -> None:
    """The ranks meet at a store of the run: no rank serves one, and none stays alone."""
    spec = source_spec(tmp_path, DESCENT, launch="per-device")
    away = train(replace(spec, devices=("cpu:0", AWAY)), runs_root)
    assert away.states[-1] is RunState.FINISHED, (away.run.facts, away.run.log_end())
    assert away.losses() == pytest.approx(descent_losses(), rel=1e-5, abs=1e-6)
    assert away.run.log_end().startswith("agent store True")
    assert (away.run.dir / "log.1.txt").read_text() == away.run.log_end()
    assert any("trusted network only" in each for each in away.run.facts.notices)
    assert not any("never met" in each for each in away.run.facts.notices)
    assert parts(server) == []
