"""Settings that only some strategies have, and what is wrong with those of a spec."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.catalog.frameworks import framework
from core.catalog.strategies import STRATEGIES
from core.language import tr, tr_noop, tr_plural
from core.schema.settings import Training
from core.text import join_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.catalog.strategies import Strategy
    from core.schema.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategySetting:
    """A field of `Training` that has a meaning for some strategies only."""

    name: str
    title: str

    @property
    def strategies(self) -> list[Strategy]:
        """The strategies that have it."""
        return [strategy for strategy in STRATEGIES if self.name in strategy.settings]


STRATEGY_SETTINGS = (
    StrategySetting(name="cross_device_ops", title=tr_noop("Reduction over devices")),
    StrategySetting(name="output_device", title=tr_noop("Output device")),
    StrategySetting(name="bucket_mb", title=tr_noop("Gradient buckets in MB")),
    StrategySetting(name="gradient_compression", title=tr_noop("Gradient compression")),
    StrategySetting(name="meta_device", title=tr_noop("Meta device")),
    StrategySetting(name="make_on_device", title=tr_noop("Model made on its device")),
    StrategySetting(name="activation_checkpointing", title=tr_noop("Activation checkpointing")),
)
"""The settings that are refused with another strategy. (The number of micro-batches is not: it has always a value.)"""


def without_meaning(framework_name: str, strategy: str) -> set[str]:
    """Return the names of the settings that other strategies have and this one does not."""
    names = {name for row in STRATEGIES for name in row.settings}
    own = [row.settings for row in STRATEGIES if (row.framework, row.name) == (framework_name, strategy)]
    return names.difference(*own)


def setting_problems(spec: RunSpec, kinds: set[str]) -> Iterator[str]:
    """Yield what is wrong with these settings of a recipe's spec: sentences. `kinds`: of the chosen devices."""
    usual, foreign = Training(), without_meaning(spec.framework, spec.strategy)
    for row in STRATEGY_SETTINGS:
        is_set = getattr(spec.training, row.name) != getattr(usual, row.name)
        if is_set and row.name in foreign:
            yield _belongs_elsewhere(row, spec)
            return
    yield from _device_problems(spec, on_cpu="cpu" in kinds)
    yield from _conflicts(spec.training)
    yield from _rate_problems(spec)


def _belongs_elsewhere(row: StrategySetting, spec: RunSpec) -> str:
    strategies = list(dict.fromkeys(each.name for each in row.strategies))
    frameworks = dict.fromkeys(framework(each.framework).title for each in row.strategies)
    return tr_plural(
        "The setting “{title}” is for strategy {strategies} of {frameworks} only, but {chosen} of {framework} is "
        "chosen. Leave it at its default.",
        "The setting “{title}” is for strategies {strategies} of {frameworks} only, but {chosen} of {framework} is "
        "chosen. Leave it at its default.",
        len(strategies),
        title=tr(row.title),
        strategies=join_names(strategies),
        frameworks=join_names(frameworks),
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
