"""Settings that only some strategies have, and what is wrong with those of a spec."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.catalog.frameworks import framework
from core.language import tr, tr_noop, tr_plural
from core.schema.settings import Training
from core.text import join_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.schema.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategySetting:
    """A field of `Training` that has a meaning for some strategies only."""

    name: str
    title: str
    frameworks: tuple[str, ...]
    strategies: tuple[str, ...]
    """The strategies of these frameworks that have it."""

    def fits(self, framework_name: str, strategy: str) -> bool:
        """Return whether this strategy has the setting."""
        return framework_name in self.frameworks and strategy in self.strategies


STRATEGY_SETTINGS = (
    StrategySetting(name="cross_device_ops", title=tr_noop("Reduction over devices"),
                    frameworks=("tensorflow", "keras"), strategies=("mirrored",)),
    StrategySetting(name="output_device", title=tr_noop("Output device"),
                    frameworks=("pytorch",), strategies=("data_parallel",)),
    StrategySetting(name="bucket_mb", title=tr_noop("Gradient buckets in MB"),
                    frameworks=("pytorch",), strategies=("ddp",)),
    StrategySetting(name="gradient_compression", title=tr_noop("Gradient compression"),
                    frameworks=("pytorch",), strategies=("ddp",)),
    StrategySetting(name="meta_device", title=tr_noop("Meta device"),
                    frameworks=("pytorch",), strategies=("fsdp",)),
    StrategySetting(name="activation_checkpointing", title=tr_noop("Activation checkpointing"),
                    frameworks=("pytorch",), strategies=("single", "ddp", "fsdp")),
)  # fmt: skip


def without_meaning(framework_name: str, strategy: str) -> set[str]:
    """Return the names of the settings that this strategy does not have."""
    return {row.name for row in STRATEGY_SETTINGS if not row.fits(framework_name, strategy)}


def setting_problems(spec: RunSpec, kinds: set[str]) -> Iterator[str]:
    """Yield what is wrong with these settings of a recipe's spec: sentences. `kinds`: of the chosen devices."""
    usual = Training()
    for row in STRATEGY_SETTINGS:
        is_set = getattr(spec.training, row.name) != getattr(usual, row.name)
        if is_set and not row.fits(spec.framework, spec.strategy):
            yield _belongs_elsewhere(row, spec)
            return
    yield from _device_problems(spec, on_cpu="cpu" in kinds)
    yield from _rate_problems(spec)


def _belongs_elsewhere(row: StrategySetting, spec: RunSpec) -> str:
    return tr_plural(
        "The setting “{title}” is for strategy {strategies} of {frameworks} only, but {chosen} of {framework} is "
        "chosen. Leave it at its default.",
        "The setting “{title}” is for strategies {strategies} of {frameworks} only, but {chosen} of {framework} is "
        "chosen. Leave it at its default.",
        len(row.strategies),
        title=tr(row.title),
        strategies=join_names(row.strategies),
        frameworks=join_names(framework(each).title for each in row.frameworks),
        chosen=spec.strategy,
        framework=framework(spec.framework).title,
    )


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
