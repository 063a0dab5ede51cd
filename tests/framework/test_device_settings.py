"""Settings that only some strategies have: each follows the curve of one device, or says why it cannot.

Compressed gradients: what they carry, what PowerSGD owes and remembers.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from torch import nn

from core.runs.facts import RunState
from core.worker.pytorch.ddp import PowerSGD
from tests.support.block_model import BLOCKS, TWO, on_two, values
from tests.support.resuming import broken_off, resumed
from tests.support.running import Followed, make_spec, train, write_recipe
from tests.support.strategy_runs import spec_of


@pytest.mark.slow
def test_float16_gradients_are_weighted_like_plain_ones(runs_root: Path, blocks: str, blocks_alone: Followed) -> None:
    followed = on_two(blocks, runs_root, "ddp", gradient_compression="float16")
    assert values(followed) == pytest.approx(values(blocks_alone), rel=1e-3)
    assert values(followed) != pytest.approx(values(blocks_alone), rel=1e-6), "nothing was compressed"


def test_powersgd_begins_after_a_tenth_of_the_steps(runs_root: Path, blocks: str, blocks_alone: Followed) -> None:
    followed = on_two(blocks, runs_root, "ddp", gradient_compression="powersgd")
    losses, plain = followed.losses(), blocks_alone.losses()
    assert losses[:3] == pytest.approx(plain[:3], rel=1e-5)  # two plain steps; the loss is measured before its step
    assert losses[3] != pytest.approx(plain[3], rel=1e-4)
    assert losses[-1] < 0.7 * losses[0]
    assert not followed.run.facts.notices


class Bucket(NamedTuple):
    """One bucket with all gradients, as DDP gives it to a hook."""

    parameters: Callable[[], list[nn.Parameter]]
    gradients: Callable[[], list[torch.Tensor]]
    buffer: Callable[[], torch.Tensor]
    is_last: Callable[[], bool] = lambda: True


@pytest.fixture
def one_rank() -> Iterator[None]:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("one_rank")
def test_powersgd_sends_matrices_of_rank_one_and_owes_the_rest() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(4, 8, 3).to(memory_format=torch.channels_last), nn.Linear(16, 12))
    task = SimpleNamespace(model=model, train=SimpleNamespace(steps=1), turns=())
    training = SimpleNamespace(epochs=1, warmup_steps=0, seed=0)
    powersgd = PowerSGD(task, SimpleNamespace(training=training, rank=0))  # type: ignore[arg-type]  # what it reads of them
    powersgd.begin(2)
    parameters = list(model.parameters())
    exact = [torch.zeros_like(each) for each in parameters]
    sent = [torch.zeros_like(each) for each in parameters]
    constant = [torch.randn_like(each) for each in parameters]
    for _ in range(60):
        gradients = [each.clone() for each in constant]
        bucket = Bucket(lambda: parameters, lambda found=gradients: found, lambda: torch.zeros(1))
        powersgd.reduce(bucket).wait()  # type: ignore[arg-type]  # as above
        for number, gradient in enumerate(gradients):
            exact[number] += constant[number]
            sent[number] += gradient
        assert torch.linalg.matrix_rank(gradients[0].flatten(1)) == torch.linalg.matrix_rank(gradients[2]) == 1
    assert torch.allclose(sent[1], exact[1])
    assert torch.allclose(sent[3], exact[3]), "vectors are sent as they are"
    for number in (0, 2):
        missing = (exact[number] - sent[number]).norm() / exact[number].norm()
        assert missing < 0.2, "what one step lacks is in a later one"


@pytest.fixture(scope="module")
def compressed(blocks: str, tmp_path_factory: pytest.TempPathFactory) -> Followed:
    """A run of a wider model, whose gradients take several buckets."""
    root = tmp_path_factory.mktemp("compressed")
    choices = {"settings": {"width": "160"}, "bucket_mb": 1, "checkpoints": {"unit": "steps", "every": 1, "keep": 99}}
    return on_two(blocks, root, "ddp", gradient_compression="powersgd", **choices)


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 2, 7])
def test_powersgd_continues_after_a_resume_as_if_it_had_not_ended(runs_root, compressed, step) -> None:
    """Broken off before it begins, where its first step is the first of the resumed run, and in the middle."""
    again = resumed(broken_off(compressed, step, runs_root))
    assert values(again) == values(compressed)
    assert not again.run.facts.notices


OWN_OPTIMIZER = BLOCKS[BLOCKS.index("    def optimizer(") :]
OPTIMIZERS = """
    def optimizers(model):
        return {"only": torch.optim.Adam(model.parameters())}

    def loss():
        return nn.functional.cross_entropy

    def training_step(model, batch, optimizer):
        return model(batch[0]).mean()
"""


def test_powersgd_is_refused_with_several_optimizers(runs_root: Path, tmp_path: Path) -> None:
    source = write_recipe(tmp_path, BLOCKS.replace(OWN_OPTIMIZER, OPTIMIZERS))
    followed = on_two(source, runs_root, "ddp", gradient_compression="powersgd")
    assert "with optimizers() the gradients of the other optimizers are discarded in each turn." in followed.failure


WEIGHING = f"""{BLOCKS}

    def training_step(model, batch):
        inputs, target = batch
        return {{"loss": nn.functional.cross_entropy(model(inputs), target), "weight": len(target)}}
"""


def test_weighted_steps_are_refused_with_a_compression_that_cannot_carry_them(runs_root: Path, tmp_path: Path) -> None:
    followed = on_two(write_recipe(tmp_path, WEIGHING), runs_root, "ddp", gradient_compression="float16")
    assert "Gradient compression float16 cannot carry them. Choose bfloat16" in followed.failure


# -- other settings --------------------------------------------------------------------------------


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
