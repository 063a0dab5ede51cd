"""Settings that only some strategies have, and what is wrong with those of a spec."""

from __future__ import annotations

from collections.abc import Iterator

from core.catalog.frameworks import framework
from core.language import tr, tr_plural
from core.schema.setting import RECIPE, Setting, settings_of
from core.schema.settings import Training
from core.schema.spec import RunSpec
from core.text import join_names

HARMLESS = ("micro_batches",)
"""Settings that other strategies ignore. A preset keeps its number of micro-batches, whatever strategy it has now."""


def where(row: Setting) -> str:
    """Return what has a setting that not everything has: `PyTorch`, or `strategies ddp and fsdp of PyTorch`."""
    if RECIPE in row.only:
        return tr("recipes")
    frameworks = join_names(dict.fromkeys(framework(each.partition(".")[0]).title for each in row.only))
    strategies = list(dict.fromkeys(each.partition(".")[2] for each in row.only if "." in each))
    if not strategies:
        return frameworks
    return tr_plural(
        "strategy {strategies} of {frameworks}",
        "strategies {strategies} of {frameworks}",
        len(strategies),
        strategies=join_names(strategies),
        frameworks=frameworks,
    )


def without_meaning(framework_name: str, strategy: str) -> set[str]:
    """Return the names of the settings that others have and this strategy does not."""
    return {name for name, row in settings_of(Training).items() if not row.is_for(framework_name, strategy)}


def setting_problems(spec: RunSpec, kinds: set[str]) -> Iterator[str]:
    """Yield what is wrong with these settings of a recipe's spec: sentences. `kinds`: of the chosen devices."""
    for name, row in settings_of(Training).items():
        is_foreign = not row.is_for(spec.framework, spec.strategy)
        if is_foreign and name not in HARMLESS and getattr(spec.training, name) != row.default:
            yield tr(
                "The setting “{title}” is for {where} only, but {chosen} of {framework} is chosen. Leave it at its "
                "default.",
                title=tr(row.title),
                where=where(row),
                chosen=spec.strategy,
                framework=framework(spec.framework).title,
            )
            return
    yield from _device_problems(spec, on_cpu="cpu" in kinds)
    yield from _conflicts(spec.training)
    yield from _rate_problems(spec)


def _device_problems(spec: RunSpec, *, on_cpu: bool) -> Iterator[str]:
    training = spec.training
    if training.cross_device_ops == "nccl" and on_cpu:
        yield tr(
            "NCCL adds up gradients of GPUs only, and CPU devices are chosen. Choose auto, hierarchical_copy or "
            "one_device."
        )
    if training.gradient_compression == "bfloat16" and on_cpu:
        yield tr(
            "PyTorch compresses gradients to bfloat16 with NCCL only, and CPU devices use Gloo. Choose float16, "
            "powersgd or none."
        )
    if training.output_device >= len(spec.devices):
        yield tr_plural(
            "The output device is number {number}, but the run has {count} device, counted from 0. Choose a smaller "
            "number.",
            "The output device is number {number}, but the run has {count} devices, counted from 0. Choose a smaller "
            "number.",
            len(spec.devices),
            number=training.output_device,
        )


def _conflicts(training: Training) -> Iterator[str]:
    if training.meta_device and training.make_on_device:
        yield tr("The model cannot be made on the meta device and on its own device. Choose one of them.")
    if training.gradient_compression == "powersgd" and training.precision == "float16":
        yield tr(
            "PowerSGD keeps errors of gradients for later steps, and float16 scales gradients by a number that "
            "changes. Choose precision bfloat16 or float32, or gradient compression float16 or none."
        )


def _rate_problems(spec: RunSpec) -> Iterator[str]:
    training = spec.training
    if training.rate_scaling != "none" and training.reference_batch is None:
        yield tr(
            "The learning rate cannot be scaled to the batch size: the batch size for which it was chosen is not "
            "known. Give it (--reference-batch N)."
        )
    if training.rate_scaling == "none" and training.reference_batch is not None:
        yield tr(
            "A batch size for the learning rate is given, but nothing scales the rate. Choose linear or sqrt "
            "(--rate-scaling), or leave the batch size out."
        )


def rate_arithmetic(training: Training) -> str:
    """Return the scaled learning rate as a product; the empty string where nothing scales it."""
    if training.rate_scaling == "none" or training.reference_batch is None:
        return ""
    ratio = f"{training.batch_size} / {training.reference_batch}"
    factor = ratio if training.rate_scaling == "linear" else f"√({ratio})"
    if training.learning_rate is None:
        return tr("the recipe's × {factor}", factor=factor)
    return f"{training.learning_rate * training.rate_factor:g} = {training.learning_rate:g} × {factor}"
