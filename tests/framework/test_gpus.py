"""PyTorch workers on simulated GPUs see exactly the selected ones and report if torch cannot use them."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from core.config import validation
from core.devices.sampler import Sampler
from core.runs.facts import RunState
from tests.nvml.standin import StandIn, uuid
from tests.process.test_gpu_run import REPORTING_ENVIRONMENT, seen
from tests.support.running import LONG_PYTORCH, make_spec, train, write_recipe
from tests.support.waiting import PATIENCE_S


@pytest.mark.e2e
@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine's own GPUs would answer for those of the stand-in")
def test_every_worker_sees_only_the_selected_gpus(nvml: StandIn, tmp_path: Path, runs_root: Path) -> None:
    nvml.write(gpus=8)
    ticked = (uuid(5), uuid(2))
    recipe = write_recipe(tmp_path / "recipes", LONG_PYTORCH + REPORTING_ENVIRONMENT)
    spec = replace(make_spec(recipe, batch_size=64), devices=ticked, strategy="ddp")
    with Sampler() as sampler:
        assert validation.problems(spec, sampler.survey(PATIENCE_S).devices) == []
    followed = train(spec, runs_root)
    expected = {
        "CUDA_VISIBLE_DEVICES": ",".join(ticked),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "TRAINYARD_RUN": followed.run.id,
    }
    workers = seen(tmp_path / "recipes")
    assert workers
    assert all(worker == expected for worker in workers)
    assert followed.states[-2:] == [RunState.RELEASING, RunState.FAILED]
    assert f"This worker sees 0 CUDA devices, but 2 were chosen ({ticked[0]}, {ticked[1]})" in str(
        followed.run.facts.error
    )
    assert [worker.devices for _, worker in sorted(followed.run.facts.workers.items())] == [(ticked[0],), (ticked[1],)]
