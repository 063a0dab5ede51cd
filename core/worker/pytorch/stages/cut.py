"""Where a row of layers may be cut, and where it is best cut: contiguous parts, the heaviest as light as can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    """Numbers of the layers at which another part may begin.

    Each part has parameters to train, and activations stay with what they follow. Layers that share a
    parameter stay together: two processes, or two devices, would have one each.
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


def evenly(weights: Sequence[float], allowed: Sequence[int], parts: int) -> list[int] | None:
    """The number of the first layer of each part; None when there are fewer places to cut than it takes.

    Of the best ways it takes the one with the earliest cuts.
    """
    places = [0, *allowed]
    if len(places) < parts:
        return None
    sums = [sum(weights[begin:end]) for begin, end in zip(places, [*places[1:], len(weights)], strict=True)]
    # best[n]: for the first n pieces in as many parts as rounds were made, the heaviest part and where each begins.
    best: list[tuple[float, list[int]]] = [(sum(sums[:count]), [0]) for count in range(len(sums) + 1)]
    for _ in range(1, parts):
        best = [_one_more(best, sums, count) for count in range(len(sums) + 1)]
    return [places[each] for each in best[-1][1]]


def _one_more(best: list[tuple[float, list[int]]], sums: list[float], count: int) -> tuple[float, list[int]]:
    ways = [
        (max(heaviest, sum(sums[cut:count])), [*begins, cut])
        for cut, (heaviest, begins) in enumerate(best[:count])
        if cut > begins[-1]
    ]
    return min(ways, default=(float("inf"), [count]))
