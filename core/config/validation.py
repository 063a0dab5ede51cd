"""What fits together: the rows of `core.catalog.strategies`, and what is wrong with a spec before it is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.catalog.frameworks import Framework, framework
from core.catalog.interpreters import has, interpreter
from core.catalog.strategies import Strategy, find_strategy, strategies_of, strategy_of
from core.launchers import script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.devices.device import Device
    from core.schema.spec import RunSpec

KIND_NAMES = {"cpu": "CPU devices", "nvidia": "NVIDIA GPUs"}


def is_installed(row: Framework) -> bool:
    """Whether the Python that would run it has the framework; it is looked for, not imported."""
    return has(interpreter(row), row.module)


def obstacle(row: Strategy, devices: Sequence[Device]) -> str:
    """Why this strategy cannot train on these devices: a sentence, or no text. No device is no obstacle yet."""
    reason = row.unavailable()
    if reason or not devices:
        return reason
    kinds = sorted({device.kind for device in devices})
    if not set(kinds) <= set(row.device_kinds):
        names = " and ".join(KIND_NAMES.get(kind, kind) for kind in row.device_kinds)
        return f"Strategy {row.strategy} runs on {names} only."
    if len(devices) < row.min_devices:
        return f"Strategy {row.strategy} needs {row.min_devices} devices or more, and {len(devices)} is ticked."
    if row.max_devices is not None and len(devices) > row.max_devices:
        return _too_many(row, devices)
    return ""


def problems(spec: RunSpec, devices: Sequence[Device]) -> list[str]:
    """Sentences on what would keep this spec from running on this machine; none when it can start.

    `devices`: all that this machine has. Recipe files are checked where they are read (`core.catalog.recipes`).
    """
    try:
        row = strategy_of(spec)
        found = [] if spec.script else _framework_problems(spec)
    except ValueError as error:
        return [str(error)]
    wrong_devices = _device_problems(spec, row, devices)
    if wrong_devices:
        return [*found, *wrong_devices]
    own = script.problems(spec.script, spec.strategy) if spec.script else _setting_problems(spec, row)
    return [*found, *_number_problems(spec), *own]


def _framework_problems(spec: RunSpec) -> list[str]:
    library = framework(spec.framework)
    return [] if has(spec.python, library.module) else [_not_installed(library, spec)]


def _not_installed(library: Framework, spec: RunSpec) -> str:
    return (
        f"{library.title} is not installed in {spec.python}. "
        f"Install it there: {spec.python} -m pip install {library.extra}"
    )


def _device_problems(spec: RunSpec, row: Strategy, devices: Sequence[Device]) -> list[str]:
    by_id = {device.id: device for device in devices}
    unknown = [name for name in spec.devices if name not in by_id]
    if unknown:
        return [f"There is no device {name!r} here. Choose from: {_ids(devices)}." for name in unknown]
    if not spec.devices:
        return [f"No device is chosen. Choose at least one of: {_ids(devices)}."]
    if len(set(spec.devices)) < len(spec.devices):
        return [f"A device is named twice in {', '.join(spec.devices)}. Name each once."]
    chosen = [by_id[name] for name in spec.devices]
    return [*_blocked(chosen), *_mig_problems(chosen)] or _fit_problems(row, chosen)


def _blocked(chosen: Sequence[Device]) -> list[str]:
    return [device.blocked for device in chosen if device.blocked]


def _mig_problems(chosen: Sequence[Device]) -> list[str]:
    """CUDA shows a process one MIG device, and beside it nothing else: NVIDIA's MIG user guide."""
    migs = [device for device in chosen if device.is_mig]
    if not migs or len(chosen) == 1:
        return []
    names = ", ".join(device.label for device in chosen)
    return [f"A process uses one MIG device at most, and nothing beside it; ticked are {names}. Tick one MIG device."]


def _fit_problems(row: Strategy, chosen: Sequence[Device]) -> list[str]:
    kinds = sorted({device.kind for device in chosen})
    if len(kinds) > 1:
        names = " and ".join(KIND_NAMES.get(kind, kind) for kind in kinds)
        return [f"{names} are ticked together ({', '.join(device.label for device in chosen)}). One run uses one kind."]
    reason = obstacle(row, chosen)
    return [reason] if reason else []


def _too_many(row: Strategy, chosen: Sequence[Device]) -> str:
    others = [
        other.strategy for other in strategies_of(row.framework) if other is not row and not obstacle(other, chosen)
    ]
    return (
        f"Strategy {row.strategy} trains on {row.max_devices} device and {len(chosen)} are ticked "
        f"({', '.join(device.label for device in chosen)}). Untick the others, or choose {' or '.join(others)}."
    )


def _number_problems(spec: RunSpec) -> list[str]:
    if spec.cuda_ids == "integer" and any(name.startswith("MIG-") for name in spec.devices):
        return ["A MIG device has no number that CUDA would know it by. Let the run name its GPUs by UUID."]
    return []


def _setting_problems(spec: RunSpec, row: Strategy) -> list[str]:
    found = _batch_problems(spec, row)
    if spec.training.loader_workers and row.framework != "pytorch":
        found.append(
            f"{framework(row.framework).title} loads data in threads of its own and has no data-loader workers. "
            "Set their number to 0."
        )
    if row.strategy == "pipeline" and spec.training.micro_batches < len(spec.devices):
        found.append(
            f"{spec.training.micro_batches} micro-batches cannot fill a pipeline of {len(spec.devices)} stages. "
            "Choose at least as many micro-batches as there are devices."
        )
    if row.strategy == "placement" and row.framework != "pytorch" and spec.training.compile:
        found.append("XLA compiles for one device, and a placed model is on several. Switch compiling off.")
    if row.strategy == "data_parallel" and spec.training.compile:
        found.append("nn.DataParallel cannot copy a compiled model. Switch compiling off, or choose strategy ddp.")
    return found


def _parts(spec: RunSpec, row: Strategy) -> list[tuple[int, str]]:
    """Into what the global batch is divided, outermost first: each number, and what it counts."""
    training, devices = spec.training, len(spec.devices)
    parts = [(row.ways(devices), f"device{'s' if row.ways(devices) != 1 else ''}")]
    if row.strategy == "pipeline":
        parts = [(1, f"pipeline of {devices} stages"), (training.micro_batches, "micro-batches")]
    elif not row.splits_batch and devices > 1:
        parts = [(1, "worker at a time" if row.parallel == "data" else f"model on {devices} devices")]
    return [*parts, (training.accumulation, "accumulation")]


def _batch_problems(spec: RunSpec, row: Strategy) -> list[str]:
    batch_size, parts = spec.training.batch_size, _product(spec, row)
    if batch_size % parts == 0:
        return []
    lower = batch_size // parts * parts
    near = f"{lower} or {lower + parts}" if lower else f"{parts}"
    what = " and ".join(_counted(count, name) for count, name in _parts(spec, row))
    return [f"A batch of {batch_size} cannot be split evenly over {what}. Choose {near}, or another accumulation."]


def _counted(count: int, name: str) -> str:
    if name == "accumulation":
        name = "accumulation step" if count == 1 else "accumulation steps"
    return f"{count} {name}"


def _product(spec: RunSpec, row: Strategy) -> int:
    product = 1
    for count, _ in _parts(spec, row):
        product *= count
    return product


def batch_arithmetic(spec: RunSpec) -> str:
    """How the global batch is made up, as a product; no text where it does not come out even."""
    row = find_strategy(spec.framework, spec.strategy)
    product = _product(spec, row)
    if not spec.devices or spec.training.batch_size % product:
        return ""
    *outer, (accumulation, _) = _parts(spec, row)
    counts = " × ".join(f"{count} {name}" for count, name in outer)
    return (
        f"{spec.training.batch_size} = {counts} × {spec.training.batch_size // product} × {accumulation} accumulation"
    )


def _ids(devices: Sequence[Device]) -> str:
    return ", ".join(device.short_name for device in devices) or "none, since this machine shows no device"
