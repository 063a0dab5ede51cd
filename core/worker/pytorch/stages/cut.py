"""Where a row of layers may be cut, and where it is best cut: contiguous parts, the heaviest as light as can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Layer = tuple[str, nn.Module]


class Uncuttable(ValueError):  # noqa: N818 (what the model is, not an error of the program)
    """A model that cannot be cut. `str()` is why, as the end of a sentence."""


def is_row(model: nn.Module) -> bool:
    """Whether a model is no more than its layers, one after the other."""
    return isinstance(model, nn.Sequential) and type(model).forward is nn.Sequential.forward


def layers_of(row: nn.Module, prefix: str = "") -> Iterator[Layer]:
    """The layers of an `nn.Sequential`, and of those in it, with their full names."""
    for name, layer in row.named_modules(remove_duplicate=False):  # an activation may be used twice
        if "." in name or not name:
            continue
        if is_row(layer):
            yield from layers_of(layer, f"{prefix}{name}.")
        else:
            yield prefix + name, layer


def may_begin(layers: Sequence[nn.Module]) -> list[int]:
    """Numbers of the layers at which another part may begin: such as have parameters to train, so that each part has.

    Layers that share a parameter stay together: two processes, or two devices, would have one each.
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


def or_before(number: int, layers: Sequence[nn.Module]) -> list[int]:
    """A layer at which a part may begin, and those right before it that train nothing: they may go with either part."""
    first = number
    while not any(each.requires_grad for each in layers[first - 1].parameters()):
        first -= 1
    return list(range(first, number + 1))


def evenly(weights: Sequence[float], allowed: Sequence[Sequence[int]], parts: int) -> list[int] | None:
    """The number of the first layer of each part; None when there are fewer places to cut than it takes.

    `allowed`: the places in order; at each, the layers of which one may be the first behind the cut. Of last cuts that
    are as good it takes the earliest.
    """
    if len(allowed) + 1 < parts:
        return None
    # By the layer before which it ends: the heaviest part, and where each begins, in as many parts as rounds were made.
    ends = [(place, number) for place, numbers in enumerate(allowed) for number in numbers]
    best = {end: (sum(weights[: end[1]]), [0]) for end in [*ends, (len(allowed), len(weights))]}
    for _ in range(1, parts):
        best = {end: _one_more(best, weights, end) for end in best}
    return best[len(allowed), len(weights)][1]


def _one_more(
    best: Mapping[tuple[int, int], tuple[float, list[int]]], weights: Sequence[float], end: tuple[int, int]
) -> tuple[float, list[int]]:
    """The best way to this end with a part more, which begins at an earlier place than it ends."""
    ways = [
        (max(heaviest, sum(weights[cut : end[1]])), [*begins, cut])
        for (place, cut), (heaviest, begins) in best.items()
        if place < end[0]
    ]
    return min(ways, default=(float("inf"), [end[1]]))
