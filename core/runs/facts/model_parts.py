"""Which part of a model is on which device, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.language import tr, tr_plural
from core.text import join_names
from core.units import disk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from core.schema.event_kinds import ModelPart

SHOWN = 6
"""Modules that a sentence names; of more, the first and the last."""


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
