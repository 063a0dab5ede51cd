"""Plan the trainings of a scaling table: how many of the devices each one uses, and its spec."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from core.catalog.frameworks import framework
from core.catalog.strategies import default_strategy, find_strategy, strategies_of
from core.config.build_spec import compose, resolve
from core.config.strategy_settings import without_meaning
from core.config.validation import batch_divisor, obstacle
from core.language import tr, tr_plural
from core.text import join_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.catalog.strategies import Strategy
    from core.config.choices import RecipeChoices
    from core.devices.device import Device
    from core.schema.spec import RunSpec

FIXED = "fixed"
"""The same global batch on any number of devices: they share the work of a step."""
PER_DEVICE = "per-device"
"""The same batch on each device: the global batch grows with their number."""
BATCHES = (FIXED, PER_DEVICE)
MIN_EPOCHS = 2
"""The first epoch does not count: in it the framework loads, traces and compiles."""


def device_counts(devices: int) -> list[int]:
    """Return 1, 2, 4, ... up to this number of devices, and the number itself as the last."""
    return [*(2**power for power in range(devices.bit_length()) if 2**power < devices), devices]


def plan_specs(choices: RecipeChoices, devices: Sequence[Device], *, name: str, batch: str) -> list[RunSpec]:
    """Return the specs of the trainings, the one with the fewest devices first; the runs are called after `name`.

    `devices`: all devices of this machine. `batch`: one of `BATCHES`. Raises `ValueError` with a sentence for choices
    that make no scaling table. Whether this machine can run each spec is checked by `core.config.validation`.
    """
    chosen = resolve(choices.devices, devices)
    _check_devices(choices, chosen)
    present = [device for device in devices if device.id in chosen]
    strategy = _strategy(choices, present)
    if batch == PER_DEVICE and not strategy.splits_batch:
        raise ValueError(
            tr(
                "Strategy {strategy} does not split the batch over its devices, so none of them has a batch of its "
                "own. Keep the global batch fixed, or choose another strategy.",
                strategy=strategy.name,
            )
        )
    counts = device_counts(len(chosen))
    base = compose(_for_devices(choices, chosen[: counts[-1]], strategy.name, name), devices)
    if base.training.epochs < MIN_EPOCHS:
        raise ValueError(
            tr("The first epoch does not count, since the framework still prepares in it. Train for 2 epochs or more.")
        )
    specs = [base]
    for count in reversed(counts[:-1]):
        own = default_strategy(choices.framework, 1) if count == 1 else strategy.name
        specs.insert(0, compose(_for_devices(choices, chosen[:count], own, name), devices))
    if batch == PER_DEVICE:
        return [_with_batch(spec, spec.training.batch_size * len(spec.devices)) for spec in specs]
    _check_batch(specs)
    return specs


def run_name(name: str, devices: int) -> str:
    """Return the name of the runs of a scaling table on this number of devices, by which they are recognised."""
    return f"{name}: {devices} {'device' if devices == 1 else 'devices'}"


def _for_devices(choices: RecipeChoices, chosen: Sequence[str], strategy: str, name: str) -> RecipeChoices:
    found = replace(choices, devices=tuple(chosen), strategy=strategy, name=run_name(name, len(chosen)))
    if len(chosen) > 1:
        return found
    # One device trains with another strategy, for which validation refuses what only that of several has.
    others = without_meaning(choices.framework, strategy)
    training = {key: value for key, value in choices.training.items() if key not in others}
    return replace(found, training=training, allow_open_ports=False)


def _with_batch(spec: RunSpec, batch_size: int) -> RunSpec:
    return replace(spec, training=replace(spec.training, batch_size=batch_size))


# -- what makes no scaling table -----------------------------------------------------------------


def _check_devices(choices: RecipeChoices, chosen: Sequence[str]) -> None:
    if len(set(chosen)) < len(chosen):
        raise ValueError(
            tr("A device is named twice in {devices}. Name each once.", devices=", ".join(choices.devices))
        )
    if len(chosen) < 2:
        raise ValueError(
            tr_plural(
                "A scaling table needs at least two devices, but {count} is chosen. Choose more of them.",
                "A scaling table needs at least two devices, but {count} are chosen. Choose more of them.",
                len(chosen),
            )
        )


def _strategy(choices: RecipeChoices, chosen: Sequence[Device]) -> Strategy:
    """Return the strategy for several devices. Raises `ValueError` if it trains on one only."""
    framework(choices.framework)  # raises for an unknown one
    name = choices.strategy or default_strategy(choices.framework, len(choices.devices))
    strategy = find_strategy(choices.framework, name)
    if strategy.max_devices == 1:
        others = [each for each in strategies_of(choices.framework) if each.max_devices != 1]
        usable = [each.name for each in others if not obstacle(each, chosen)]
        raise ValueError(
            tr(
                "Strategy {strategy} trains on one device, and a scaling table compares several. "
                "Choose one of: {others}.",
                strategy=name,
                others=", ".join(usable),
            )
        )
    return strategy


def _check_batch(specs: Sequence[RunSpec]) -> None:
    """Raise `ValueError` unless the batch can be split evenly for each number of devices."""
    batch_size = specs[0].training.batch_size
    divisors = [batch_divisor(spec) for spec in specs]
    if all(batch_size % each == 0 for each in divisors):
        return
    common = math.lcm(*divisors)
    lower = batch_size // common * common
    near = tr("{lower} or {higher}", lower=lower, higher=lower + common) if lower else str(common)
    raise ValueError(
        tr(
            "A batch of {batch_size} cannot be split evenly for each of {counts} devices with an accumulation of "
            "{accumulation}. Choose a batch of {near}.",
            batch_size=batch_size,
            counts=join_names([str(len(spec.devices)) for spec in specs]),
            accumulation=specs[0].training.accumulation,
            near=near,
        )
    )
