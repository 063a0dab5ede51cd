"""Settings that only some strategies have: each follows the curve of one device, or says why it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from core.runs.facts import RunState
from tests.support.block_model import TWO, on_two, values
from tests.support.running import Followed, make_spec, train
from tests.support.strategy_runs import spec_of


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "training"),
    [
        ("ddp", {"bucket_mb": 1}),
        ("ddp", {"activation_checkpointing": True, "accumulation": 2}),
        ("fsdp", {"meta_device": True}),
        ("fsdp", {"meta_device": True, "activation_checkpointing": True, "accumulation": 2}),
    ],
)
def test_setting_keeps_the_curve_of_one_device(runs_root, blocks, blocks_alone, strategy, training) -> None:
    followed = on_two(blocks, runs_root, strategy, **training)
    assert len(followed.losses()) == 20
    assert values(followed) == pytest.approx(values(blocks_alone), rel=1e-5)


def test_learning_rate_follows_the_batch_size(runs_root: Path, blocks: str) -> None:
    """The scaled rate is the given one: the run equals one with that rate, and a warm-up is suggested."""
    scaled = train(
        make_spec(blocks, epochs=2, batch_size=32, learning_rate=0.01, rate_scaling="linear", reference_batch=8),
        runs_root,
    )
    given = train(make_spec(blocks, epochs=2, batch_size=32, learning_rate=0.04), runs_root)
    assert scaled.losses() == given.losses()
    assert scaled.run_series.metrics["learning_rate"].values.tolist() == [0.04] * 6
    (notice,) = scaled.run.facts.notices
    assert "4 times as high as for a batch of 8, and there is no warm-up" in notice
    assert "--warmup-steps 3, for example" in notice


@pytest.mark.soak
@pytest.mark.parametrize(("framework", "operation"), [("tensorflow", "hierarchical_copy"), ("keras", "one_device")])
def test_reductions_over_devices_follow_the_curve_of_one_device(runs_root, strategy_runs, framework, operation) -> None:
    followed = train(spec_of(framework, "mirrored", cross_device_ops=operation, epochs=1), runs_root)
    assert followed.state is RunState.FINISHED, followed.run.facts.error
    assert followed.losses() == pytest.approx(strategy_runs[framework, "single", 1].losses()[:23], rel=1e-4)


@pytest.mark.slow
def test_nccl_reaches_tensorflow(runs_root: Path) -> None:
    """Without the check before the start, TensorFlow itself refuses it on CPU devices."""
    followed = train(spec_of("tensorflow", "mirrored", cross_device_ops="nccl", epochs=1), runs_root)
    assert "NcclAllReduce" in followed.failure


@pytest.mark.slow
def test_bfloat16_gradients_reach_pytorch(runs_root: Path) -> None:
    """On CPU devices a build for CPUs refuses them, and a build for GPUs sends them."""
    choices = {"strategy": "ddp", "devices": TWO, "epochs": 1}
    followed = train(make_spec("digits_mlp", **choices, gradient_compression="bfloat16"), runs_root)
    if torch.version.cuda is None:
        assert followed.state is RunState.FAILED
        assert "BF16 all reduce communication hook required" in str(followed.run.facts.error)
    else:
        whole = train(make_spec("digits_mlp", **choices), runs_root).losses()
        assert followed.losses() == pytest.approx(whole, rel=0.1)
        assert followed.losses() != whole, "the gradients were rounded"


def test_output_on_another_device_follows_the_curve(runs_root: Path, blocks: str, blocks_alone: Followed) -> None:
    """Without a GPU, nn.DataParallel calls the model itself: this runs our loop, and moves nothing."""
    followed = on_two(blocks, runs_root, "data_parallel", output_device=1)
    assert values(followed) == pytest.approx(values(blocks_alone), rel=1e-6)
