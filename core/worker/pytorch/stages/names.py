"""The names that a recipe's stages have for what the whole model has names for, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor, nn


def full_names(own: nn.Module, whole: nn.Module) -> dict[str, str]:
    """By what name the whole model knows each tensor of `own`, where both hold the same; else its own name.

    The same seed makes the same weights, so content tells. Of equal ones, such as biases of zeros, the
    one whose name ends alike is meant: `1.blocks.2.norm.bias` is `blocks.2.norm.bias`.
    """
    mine, theirs = own.state_dict(), whole.state_dict()
    if own is whole:
        return {name: name for name in mine}
    found: dict[str, str] = {}
    for name, tensor in mine.items():
        alike = sorted(theirs, key=lambda other, name=name: -_common_end(name, other))  # type: ignore[misc]
        same = next((other for other in alike if _is_same(tensor, theirs[other])), None)
        if same is None:
            break
        found[name] = same
        del theirs[same]
    return found if len(found) == len(mine) and not theirs else {name: name for name in mine}


def _is_same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)


def _common_end(one: str, other: str) -> int:
    """How many parts of two names are the same, from the end."""
    count = 0
    for mine, theirs in zip(reversed(one.split(".")), reversed(other.split(".")), strict=False):
        if mine != theirs:
            break
        count += 1
    return count
