"""Cut a sequence of layers into contiguous parts, so that the heaviest part is as light as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from ....language import tr_plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Layer = tuple[str, nn.Module]


class CannotSplitError(ValueError):
    """A model cannot be cut. `str()` is the reason, to be used as the end of a sentence."""


def is_sequential(model: nn.Module) -> bool:
    """Return whether a model is a plain sequence of layers."""
    return isinstance(model, nn.Sequential) and type(model).forward is nn.Sequential.forward


def layers_of(row: nn.Module, prefix: str = "") -> Iterator[Layer]:
    """Yield the layers of an `nn.Sequential` and of those inside it, with their full names."""
    for name, layer in row.named_modules(remove_duplicate=False):  # an activation may be used twice
        if "." in name or not name:
            continue
        if is_sequential(layer):
            yield from layers_of(layer, f"{prefix}{name}.")
        else:
            yield prefix + name, layer


def split_points(layers: Sequence[nn.Module]) -> list[int]:
    """Return the numbers of the layers at which a part may begin: each part must have parameters to train.

    Layers that share a parameter stay together: two processes, or two devices, would have one copy each.
    """
    trained = [[id(each) for each in layer.parameters() if each.requires_grad] for layer in layers]
    last = {each: number for number, own in enumerate(trained) for each in own}
    found, reach, seen = [], 0, False
    for number, own in enumerate(trained):
        if own and seen and number > reach:
            found.append(number)
        seen = seen or bool(own)
        reach = max([reach, *(last[each] for each in own)])
    return found


def too_few_parts(allowed: Sequence[object]) -> str:
    """Return the reason why a model with these split points cannot be divided into more parts."""
    count = len(allowed) + 1
    return tr_plural(
        "it can be divided into at most {count} part with parameters to train",
        "it can be divided into at most {count} parts with parameters to train",
        count,
    )


def with_layers_before(number: int, layers: Sequence[nn.Module]) -> list[int]:
    """Return a split point and the layers right before it that train nothing and may go with either part."""
    first = number
    while not any(each.requires_grad for each in layers[first - 1].parameters()):
        first -= 1
    return list(range(first, number + 1))


def split_evenly(weights: Sequence[float], allowed: Sequence[Sequence[int]], parts: int) -> list[int] | None:
    """Return the number of the first layer of each part, or None if there are too few places to cut.

    `allowed`: the places in order; for each, the layers of which one may be the first after the cut. Of equally good
    last cuts the earliest is taken.
    """
    if len(allowed) + 1 < parts:
        return None
    # For each end: the weight of the heaviest part and where each part begins; each round adds a part.
    ends = [(place, number) for place, numbers in enumerate(allowed) for number in numbers]
    best = {end: (sum(weights[: end[1]]), [0]) for end in [*ends, (len(allowed), len(weights))]}
    for _ in range(1, parts):
        best = {end: _add_part(best, weights, end) for end in best}
    return best[len(allowed), len(weights)][1]


def _add_part(
    best: Mapping[tuple[int, int], tuple[float, list[int]]], weights: Sequence[float], end: tuple[int, int]
) -> tuple[float, list[int]]:
    """Return the best cuts up to this end with one more part, which begins at an earlier place than it ends."""
    choices = [
        (max(heaviest, sum(weights[cut : end[1]])), [*begins, cut])
        for (place, cut), (heaviest, begins) in best.items()
        if place < end[0]
    ]
    return min(choices, default=(float("inf"), [end[1]]))
