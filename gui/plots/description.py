"""Describe the curves of a plot in sentences, for screen readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from core.language import join_sentences, tr, tr_noop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.series.min_max_tree import Floats

MAX_CURVES = 8
"""Curves that are described; the others are counted."""
CURVE = tr_noop("{name} goes from {first} to {last}, with {lowest} as the lowest value and {highest} as the highest.")
LEVEL = tr_noop("{name} stays at {last}.")
MORE = tr_noop("{count} more curves are not described.")
NOTHING = tr_noop("Nothing is drawn.")


def describe(curves: Mapping[str, tuple[Floats, Floats]], labels: Mapping[str, str], unit: str) -> str:
    """Return a sentence on each curve: its first, last, lowest and highest finite value.

    `curves`: positions and values of each curve, shape (n,) each; `labels`: what to call a curve, by its name.
    """
    sentences = []
    for name, (_, values) in list(curves.items())[:MAX_CURVES]:
        finite = values[np.isfinite(values)]
        if not len(finite):
            continue
        parts = {
            "first": float(finite[0]), "last": float(finite[-1]),
            "lowest": float(finite.min()), "highest": float(finite.max()),
        }  # fmt: skip
        words = {part: f"{value:.3g} {unit}".strip() for part, value in parts.items()}
        form = LEVEL if words["lowest"] == words["highest"] else CURVE
        sentences.append(tr(form, name=labels.get(name, name), **words))
    left = len(curves) - MAX_CURVES
    if left > 0:
        sentences.append(tr(MORE, count=left))
    return join_sentences(sentences) or tr(NOTHING)
