"""Validation of specs: defaults, and one message for each reason that a run is impossible."""

import re
from dataclasses import replace

import pytest

from core.catalog import recipes, strategies
from core.catalog.frameworks import FRAMEWORKS
from core.config import validation
from core.config.finding import ProblemKind
from core.devices.device import Device
from core.schema.setting import RECIPE, settings_of
from core.schema.settings import Training
from tests.support.running import make_spec

CPUS = [Device(id=f"cpu:{n}", kind="cpu", label=f"CPU {n}", name="a core") for n in range(2)]
GPUS = [Device(id=f"GPU-{n}", kind="nvidia", label=f"GPU {n}", name="RTX") for n in range(4)]


def problems(*ids: str, **changes: object) -> list[str]:
    spec = make_spec("digits_mlp", devices="cpu:0")
    found = validation.problems(replace(spec, devices=ids, **changes), [*GPUS, *CPUS])  # type: ignore[arg-type]
    return [each.sentence for each in found]


def test_valid_spec_has_no_problem() -> None:
    assert problems("cpu:1") == []
    assert problems("GPU-0", "GPU-3", strategy="ddp") == []
    assert problems("cpu:0", strategy="ddp") == []
    defaults = [strategies.default_strategy("pytorch", count) for count in (0, 1, 2, 8)]
    assert defaults == ["single", "single", "ddp", "ddp"]


@pytest.mark.parametrize(
    ("ids", "changes", "sentence"),
    [
        ((), {}, "No device is chosen. Choose at least one of: gpu:0, gpu:1, gpu:2, gpu:3, cpu:0, cpu:1."),
        (("cpu:0", "GPU-0"), {"strategy": "ddp"}, "A run uses one kind of device: choose one kind."),
        (("cpu:0", "cpu:1"), {"strategy": "single"},
         "Strategy single trains on 1 device, but 2 are chosen (CPU 0, CPU 1)."),
        (("GPU-7",), {}, "There is no device 'GPU-7' here."),
        (("cpu:0", "cpu:0"), {"strategy": "ddp"}, "A device is named twice"),
        (("cpu:0",), {"strategy": "pipeline"},
         "Strategy pipeline needs 2 devices or more, but 1 is chosen. Choose strategy single, ddp or fsdp."),
        (("cpu:0", "cpu:1"), {"strategy": "data_parallel"},
         "on NVIDIA GPUs only. Choose strategy ddp, fsdp, pipeline or placement."),
        (("cpu:0",), {"framework": "tensorflow", "strategy": "tpu"}, "No TPU was found here"),
        (("cpu:0", "cpu:1"), {"framework": "keras", "strategy": "multi_worker_mirrored"},
         "Keras 3's fit fails under MultiWorkerMirroredStrategy"),
        (("cpu:0",), {"allow_open_ports": True},
         "Strategy single opens no ports: --allow-open-ports is for multi_worker_mirrored and parameter_server."),
        (("cpu:0",), {"framework": "jax"}, "There is no framework 'jax' here."),
        (("cpu:0",), {"strategy": "zero"}, "PyTorch has no strategy 'zero' here."),
    ],
)
def test_invalid_spec_has_one_problem(ids: tuple[str, ...], changes: dict[str, str], sentence: str) -> None:
    (problem,) = problems(*ids, **changes)
    assert sentence in problem


def test_strategies_that_settings_name_exist() -> None:
    known = {f"{row.framework}.{row.name}" for row in strategies.STRATEGIES} | {row.id for row in FRAMEWORKS}
    known.add(RECIPE)
    assert {each for row in settings_of(Training).values() for each in row.only} <= known


def test_missing_unknown_and_blocked_devices_have_their_own_problems() -> None:
    spec = make_spec("digits_mlp", devices="cpu:0")
    for ids, kind in (((), ProblemKind.NO_DEVICE), (("GPU-7",), ProblemKind.UNKNOWN_DEVICE)):
        assert [each.kind for each in validation.problems(replace(spec, devices=ids), CPUS)] == [kind]
    hidden = replace(GPUS[1], blocked="GPU 1 is hidden by CUDA_VISIBLE_DEVICES=0.")
    both = replace(spec, devices=("GPU-0", "GPU-1"), strategy="ddp")
    (problem,) = validation.problems(both, [GPUS[0], hidden])
    assert (problem.kind, str(problem)) == (ProblemKind.OTHER, "GPU 1 is hidden by CUDA_VISIBLE_DEVICES=0.")
    assert validation.problems(replace(spec, devices=("GPU-0",)), [GPUS[0], hidden]) == []


@pytest.mark.parametrize("ids", [("MIG-0", "MIG-1"), ("MIG-0", "GPU-0")])
def test_mig_device_cannot_be_combined_with_other_devices(ids: tuple[str, ...]) -> None:
    migs = [Device(id=f"MIG-{n}", kind="nvidia", label=f"GPU 9 MIG {n}", name="1g.5gb") for n in range(2)]
    spec = replace(make_spec("digits_mlp", devices="cpu:0"), strategy="ddp")
    (problem,) = validation.problems(replace(spec, devices=ids), [*GPUS, *migs])
    assert problem.sentence.startswith(
        "A process can use only one MIG device and no other device. Chosen: GPU 9 MIG 0, "
    )
    assert validation.problems(replace(spec, devices=ids[:1], strategy="single"), [*GPUS, *migs]) == []


@pytest.mark.parametrize(
    ("batch", "accumulation", "near"),
    [
        (64, 3, "Choose 60 or 66, or another accumulation."),
        (1, 1, "Choose 2."),
        (7, 1, "Choose 6 or 8"),
        (3, 4, "Choose 8."),
    ],
)
def test_indivisible_batch_size_suggests_the_nearest_valid_ones(batch: int, accumulation: int, near: str) -> None:
    spec = make_spec("digits_mlp", devices="cpu:0,cpu:1", batch_size=batch, accumulation=accumulation)
    (problem,) = validation.problems(spec, CPUS)
    assert near in str(problem)
    assert [each for cure in problem.cures for each in cure.values] == re.findall(r"\d+", near)
    steps = "1 accumulation step" if accumulation == 1 else f"{accumulation} accumulation steps"
    assert problem.sentence.endswith(f"evenly over 2 devices and {steps}.")


@pytest.mark.parametrize(
    ("strategy", "devices", "batch", "accumulation", "text"),
    [
        ("ddp", "cpu:0,cpu:1", 128, 2, "128 = 2 devices × 32 × 2 accumulation"),
        ("single", "cpu:0", 64, 1, "64 = 1 device × 64 × 1 accumulation"),
        ("pipeline", "cpu:0,cpu:1", 64, 1, "64 = 1 pipeline of 2 stages × 4 micro-batches × 16 × 1 accumulation"),
        ("placement", "cpu:0,cpu:1", 64, 2, "64 = 1 model on 2 devices × 32 × 2 accumulation"),
        ("ddp", "cpu:0,cpu:1", 65, 1, ""),
    ],
)
def test_batch_arithmetic_is_written_as_a_product(strategy, devices, batch, accumulation, text) -> None:
    spec = make_spec("digits_mlp", strategy=strategy, devices=devices, batch_size=batch, accumulation=accumulation)
    assert validation.batch_arithmetic(spec) == text


@pytest.mark.parametrize(
    ("framework", "strategy", "training", "on_gpus", "words"),
    [
        ("pytorch", "ddp", {"cross_device_ops": "one_device"}, False,
         "“Reduction over devices” is for strategy mirrored of TensorFlow and Keras only, but ddp of PyTorch is"),
        ("keras", "mirrored", {"cross_device_ops": "nccl"}, False,
         "NCCL adds up gradients of GPUs only, and CPU devices are"),
        ("tensorflow", "mirrored", {"cross_device_ops": "nccl"}, True, ""),
        ("pytorch", "ddp", {"gradient_compression": "bfloat16"}, False,
         "bfloat16 with NCCL only, and CPU devices use Gloo."),
        ("pytorch", "ddp", {"gradient_compression": "bfloat16", "bucket_mb": 50}, True, ""),
        ("pytorch", "fsdp", {"meta_device": True, "make_on_device": True}, False,
         "cannot be made on the meta device and on its"),
        ("pytorch", "ddp", {"gradient_compression": "powersgd", "precision": "float16"}, False,
         "PowerSGD keeps errors of gradients for later steps, and float16 scales gradients by a number that changes."),
        ("pytorch", "ddp", {"rate_scaling": "linear"}, False,
         "cannot be scaled to the batch size: the batch size for which"),
        ("keras", "mirrored", {"reference_batch": 32}, False,
         "given, but nothing scales the rate. Choose linear or sqrt"),
        ("pytorch", "data_parallel", {"output_device": 1}, True, ""),
        ("pytorch", "data_parallel", {"output_device": 2}, True,
         "The output device is number 2, but the run has 2 devices, counted from 0."),
        ("pytorch", "ddp", {"micro_batches": 8}, False, ""),  # kept, although ddp has no pipeline
    ],
)
def test_settings_that_do_not_fit_are_refused(framework, strategy, training, on_gpus, words) -> None:
    spec = make_spec("digits_mlp", framework=framework, strategy=strategy, devices="cpu:0,cpu:1", **training)
    devices = GPUS[:2] if on_gpus else CPUS
    found = validation.problems(replace(spec, devices=tuple(each.id for each in devices)), devices)
    assert len(found) == bool(words)
    assert words in "".join(each.sentence for each in found)
    assert {name: getattr(spec.training, name) for name in training} == training


def test_scaled_learning_rate_is_shown_as_a_product() -> None:
    common = {"devices": "cpu:0,cpu:1", "learning_rate": 0.1, "batch_size": 256, "reference_batch": 64}
    spec = make_spec("digits_mlp", rate_scaling="linear", **common)
    assert validation.problems(spec, CPUS) == []
    assert validation.batch_arithmetic(spec).endswith("1 accumulation; learning rate 0.4 = 0.1 × 256 / 64")
    root = make_spec("digits_mlp", rate_scaling="sqrt", **common)
    assert validation.batch_arithmetic(root).endswith("; learning rate 0.2 = 0.1 × √(256 / 64)")


def test_recipe_of_another_framework_is_refused() -> None:
    keras_file = recipes.find("digits_mlp", "keras").path
    with pytest.raises(ValueError, match="Recipe digits_mlp imports keras: it is for TensorFlow or Keras and"):
        make_spec(str(keras_file), framework="pytorch")
    torch_file = recipes.find("digits_mlp", "pytorch").path
    with pytest.raises(ValueError, match=r"imports torch: it is for PyTorch .* with Keras. Choose framework pytorch"):
        make_spec(str(torch_file), framework="keras")
