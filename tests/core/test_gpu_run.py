"""A run on GPUs of the stand-in: the workers see exactly what was ticked, and say so when torch cannot use it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from core import catalog
from core.devices.sampler import Sampler
from core.state import RunState
from tests.nvml.standin import uuid
from tests.running import LONG, make_spec, train, write_recipe

if TYPE_CHECKING:
    from pathlib import Path

    from tests.nvml.standin import StandIn

TELLING = f"""{LONG}
import json, os
from pathlib import Path

names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "TRAINYARD_RUN")
seen = {{name: os.environ.get(name) for name in names}}
(Path(__file__).parent / f"seen-{{os.getpid()}}.json").write_text(json.dumps(seen))
"""


def seen(folder: Path) -> list[dict[str, str]]:
    return [json.loads(path.read_text()) for path in folder.glob("seen-*.json")]


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine's own GPUs would answer for those of the stand-in")
def test_two_ticked_gpus_are_the_two_that_every_worker_sees(nvml: StandIn, tmp_path: Path, runs_root: Path) -> None:
    nvml.write(gpus=8)
    ticked = (uuid(5), uuid(2))
    recipe = write_recipe(tmp_path / "recipes", TELLING)
    spec = replace(make_spec(recipe, batch_size=64), devices=ticked, strategy="ddp")
    with Sampler() as sampler:
        assert catalog.problems(spec, sampler.survey(20).devices) == []
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
    assert f"This worker sees 0 CUDA devices where 2 were ticked ({ticked[0]}, {ticked[1]})" in str(
        followed.run.facts.error
    )
    assert [worker.devices for _, worker in sorted(followed.run.facts.workers.items())] == [(ticked[0],), (ticked[1],)]


def test_a_cpu_run_sees_no_gpu(nvml: StandIn, tmp_path: Path, runs_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.write(gpus=8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    followed = train(make_spec(write_recipe(tmp_path / "recipes", TELLING), epochs=1), runs_root)
    assert followed.state is RunState.FINISHED
    assert [worker["CUDA_VISIBLE_DEVICES"] for worker in seen(tmp_path / "recipes")] == [""]


def test_a_gpu_that_is_gone_when_the_run_starts_is_named(nvml: StandIn, tmp_path: Path, runs_root: Path) -> None:
    nvml.write(gpus=2)
    spec = replace(make_spec(write_recipe(tmp_path, LONG)), devices=(uuid(1),))
    nvml.write(gpus=1)
    followed = train(spec, runs_root)
    assert followed.states == [RunState.STARTING, RunState.FAILED]
    assert f"Device {uuid(1)} is not on this machine any more." in str(followed.run.facts.error)
