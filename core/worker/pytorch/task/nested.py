"""Batches of any shape: tensors in tuples, dicts and dataclasses, beside texts and other values, which stay."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def map_tensors(function: Callable[[Tensor], object], batch: Any) -> Any:  # noqa: ANN401 (any shape)
    """Return a batch of the same shape in which each tensor is replaced by the function's value.

    It goes into tuples, named tuples, lists, mappings (also such as Hugging Face's `BatchEncoding`) and dataclasses.
    """
    mapped: Any = batch
    if isinstance(batch, Tensor):
        mapped = function(batch)
    elif isinstance(batch, tuple) and hasattr(batch, "_fields"):
        mapped = type(batch)(*(map_tensors(function, each) for each in batch))
    elif isinstance(batch, (tuple, list)):
        mapped = type(batch)(map_tensors(function, each) for each in batch)
    elif isinstance(batch, MutableMapping):
        mapped = copy.copy(batch)  # keeps what the mapping's class adds
        for key, value in batch.items():
            mapped[key] = map_tensors(function, value)
    elif dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        mapped = copy.copy(mapped)
        for field in dataclasses.fields(batch):
            # Not `replace`: a frozen class forbids the plain way, and `__post_init__` may expect other values.
            object.__setattr__(mapped, field.name, map_tensors(function, getattr(batch, field.name)))
    return mapped


def tensors_in(batch: Any) -> list[Tensor]:  # noqa: ANN401 (any shape)
    """Return the tensors of a batch, in the order of `map_tensors`."""
    found: list[Tensor] = []
    map_tensors(found.append, batch)
    return found


def rebuild(batch: Any, tensors: Sequence[Tensor]) -> Any:  # noqa: ANN401 (any shape)
    """Return a batch of the shape of `batch` with these tensors, which are in the order of `tensors_in`."""
    following = iter(tensors)
    return map_tensors(lambda _: next(following), batch)


def rebuilder(batch: Any) -> Callable[[Sequence[Tensor]], Any]:  # noqa: ANN401 (any shape)
    """Return `rebuild` for batches of this shape, which is faster where they are flat: it is called in each step."""
    if type(batch) in {tuple, list} and all(isinstance(each, Tensor) for each in batch):
        return type(batch)
    if type(batch) is dict and all(isinstance(each, Tensor) for each in batch.values()):
        names = tuple(batch)
        return lambda tensors: dict(zip(names, tensors, strict=True))
    return partial(rebuild, batch)
