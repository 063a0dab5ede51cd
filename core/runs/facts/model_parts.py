"""Which part of a model is on which device, as the workers recorded it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.language import tr, tr_plural
from core.schema.codec import Limits, decode
from core.text import join_names
from core.units import disk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_PARAMETERS = 10_000
"""Names of parameters that are kept of each device."""
MAX_BYTES = 2**60
MAX_NAME = 200
"""Characters of a name that are kept."""
SHOWN = 6
"""Modules that a sentence names; of more, the first and the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPart:
    """What a device holds of a model."""

    device: str
    """The id of the device."""
    parameters: tuple[str, ...]
    """Names in the framework's own way, such as `body.0.weight` or `dense/kernel`."""
    where: str
    """Where the framework says that they are, such as `cuda:1`; for fsdp, that they are shards."""
    size_bytes: int | None = None
    """The size of these parameters on the device; None if it is not known."""
    reads_from: str = ""
    """The id of the device whose parameters it reads at each step, where it has none by intention."""

    @property
    def is_sharded(self) -> bool:
        """Whether the device holds a shard of each parameter instead of whole ones."""
        return self.where.startswith("a shard")


def read_part(event: Mapping[str, Any]) -> ModelPart:
    """Read the event `parts`. Raises `ValueError` when it is damaged."""
    size_bytes = event.get("bytes")
    return decode(
        ModelPart, {**event, "reads_from": event.get("reads_from") or ""}, Limits(MAX_NAME, MAX_PARAMETERS),
        size_bytes=size_bytes if isinstance(size_bytes, int) and 0 <= size_bytes < MAX_BYTES else None,
    )  # fmt: skip


def part_sentences(parts: Iterable[ModelPart], labels: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the label of each device with a sentence on what it holds. `labels`: names of devices by id."""
    parts = list(parts)
    whole = len({name for part in parts for name in part.parameters})
    return [(labels.get(part.device, part.device), _sentence(part, whole, labels)) for part in parts]


def _sentence(part: ModelPart, whole: int, labels: Mapping[str, str]) -> str:
    count = len(part.parameters)
    if part.reads_from:
        return tr("no parameter: it reads those on {device}", device=labels.get(part.reads_from, part.reads_from))
    if not count:
        return tr("no parameter of the model")
    if part.is_sharded:
        held = tr_plural("a shard of {count} parameter", "a shard of each of {count} parameters", count)
    else:
        modules = _modules(part.parameters)
        held = tr("{count} of {whole} parameters: {modules}", count=count, whole=whole, modules=modules)
    return held if part.size_bytes is None else tr("{held} ({size})", held=held, size=disk(part.size_bytes))


def _modules(names: Sequence[str]) -> str:
    """Return the modules that hold these parameters, in their order."""
    modules = list(dict.fromkeys(name.replace("/", ".").rpartition(".")[0] or name for name in names))
    if len(modules) <= SHOWN:
        return join_names(modules)
    return tr("{count} modules from {first} to {last}", count=len(modules), first=modules[0], last=modules[-1])
