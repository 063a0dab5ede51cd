"""What can be trained how: the rows framework x strategy, and what is wrong with a spec before it is started."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.devices.device import Device
    from core.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """A library that trains."""

    id: str
    title: str
    module: str
    extra: str
    """The extra of our distribution that installs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A strategy of a framework: one file below `core.worker`."""

    framework: str
    strategy: str
    title: str
    summary: str
    target: str
    """The module below `core.worker`."""
    per_device: bool
    """One process per device, or one for all."""
    most_devices: int | None = None
    device_kinds: tuple[str, ...] = ("cpu", "nvidia")

    def workers(self, devices: int) -> int:
        """The world size on so many devices."""
        return devices if self.per_device else 1


FRAMEWORKS = (Framework(id="pytorch", title="PyTorch", module="torch", extra="torch"),)

CELLS = (
    Cell(
        framework="pytorch",
        strategy="single",
        title="One device",
        summary="One process on one device.",
        target="pytorch.single",
        per_device=False,
        most_devices=1,
    ),
    Cell(
        framework="pytorch",
        strategy="ddp",
        title="Data parallel (DDP)",
        summary="One process per device; each takes its slice of the global batch, gradients are averaged.",
        target="pytorch.ddp",
        per_device=True,
    ),
)

KIND_NAMES = {"cpu": "CPU devices", "nvidia": "NVIDIA GPUs"}


def framework(name: str) -> Framework:
    """The framework's row. Raises `ValueError` with a sentence."""
    for row in FRAMEWORKS:
        if row.id == name:
            return row
    known = ", ".join(row.id for row in FRAMEWORKS)
    raise ValueError(f"There is no framework {name!r} here. Choose one of: {known}.")


def cell(framework_name: str, strategy: str) -> Cell:
    """The row of a framework's strategy. Raises `ValueError` with a sentence."""
    title = framework(framework_name).title
    rows = strategies(framework_name)
    for row in rows:
        if row.strategy == strategy:
            return row
    known = ", ".join(row.strategy for row in rows)
    raise ValueError(f"{title} has no strategy {strategy!r} here. Choose one of: {known}.")


def strategies(framework_name: str) -> list[Cell]:
    """The rows of a framework."""
    return [row for row in CELLS if row.framework == framework_name]


def default_strategy(framework_name: str, devices: int) -> str:
    """What is meant when no strategy is named: the first that takes so many devices."""
    for row in strategies(framework_name):
        if row.most_devices is None or devices <= row.most_devices:
            return row.strategy
    return strategies(framework_name)[0].strategy


def is_installed(row: Framework) -> bool:
    """Whether this Python has the framework; it is looked for, not imported."""
    return importlib.util.find_spec(row.module) is not None


def problems(spec: RunSpec, devices: Sequence[Device]) -> list[str]:
    """Sentences on what would keep this spec from running on this machine; none when it can start.

    `devices`: all that this machine has. Recipe files are checked where they are read (`core.recipes`).
    """
    try:
        library, row = framework(spec.framework), cell(spec.framework, spec.strategy)
    except ValueError as error:
        return [str(error)]
    found = [] if is_installed(library) or spec.python != sys.executable else [_not_installed(library)]
    wrong_devices = _device_problems(spec, row, devices)
    return [*found, *wrong_devices] if wrong_devices else [*found, *_batch_problems(spec, row)]


def _not_installed(library: Framework) -> str:
    return (
        f"{library.title} is not installed in {sys.executable}. "
        f"Install it there: pip install 'trainyard[{library.extra}]'."
    )


def _device_problems(spec: RunSpec, row: Cell, devices: Sequence[Device]) -> list[str]:
    by_id = {device.id: device for device in devices}
    unknown = [name for name in spec.devices if name not in by_id]
    if unknown:
        return [f"There is no device {name!r} here. Choose from: {_ids(devices)}." for name in unknown]
    if not spec.devices:
        return [f"No device is chosen. Choose at least one of: {_ids(devices)}."]
    if len(set(spec.devices)) < len(spec.devices):
        return [f"A device is named twice in {', '.join(spec.devices)}. Name each once."]
    return _fit_problems(row, [by_id[name] for name in spec.devices])


def _fit_problems(row: Cell, chosen: Sequence[Device]) -> list[str]:
    kinds = sorted({device.kind for device in chosen})
    if len(kinds) > 1:
        names = " and ".join(KIND_NAMES.get(kind, kind) for kind in kinds)
        return [f"{names} are ticked together ({', '.join(device.label for device in chosen)}). One run uses one kind."]
    if kinds[0] not in row.device_kinds:
        return [f"{row.title} does not run on {KIND_NAMES.get(kinds[0], kinds[0])}. Choose another strategy."]
    if row.most_devices is not None and len(chosen) > row.most_devices:
        return [_too_many(row, chosen)]
    return []


def _too_many(row: Cell, chosen: Sequence[Device]) -> str:
    others = [other.strategy for other in strategies(row.framework) if other.most_devices is None]
    return (
        f"Strategy {row.strategy} trains on {row.most_devices} device and {len(chosen)} are ticked "
        f"({', '.join(device.label for device in chosen)}). Untick the others, or choose {' or '.join(others)}."
    )


def _batch_problems(spec: RunSpec, row: Cell) -> list[str]:
    training = spec.training
    parts = row.workers(len(spec.devices)) * training.accumulation
    if training.batch_size % parts == 0:
        return []
    lower = training.batch_size // parts * parts
    near = f"{lower} or {lower + parts}" if lower else f"{parts}"
    sentence = (
        f"A batch of {training.batch_size} cannot be split evenly over {row.workers(len(spec.devices))} "
        f"device(s) and {training.accumulation} accumulation step(s). Choose {near}, or another accumulation."
    )
    return [sentence]


def batch_arithmetic(batch_size: int, workers: int, accumulation: int) -> str:
    """How the global batch is made up: `128 = 2 devices x 32 x 2 accumulation`."""
    devices = f"{workers} device{'s' if workers != 1 else ''}"
    return f"{batch_size} = {devices} × {batch_size // (workers * accumulation)} × {accumulation} accumulation"


def _ids(devices: Sequence[Device]) -> str:
    return ", ".join(device.id for device in devices) or "none, since this machine shows no device"
