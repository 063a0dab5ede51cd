"""Several values in one field of a recipe's choices, as in `0.01, 0.03, 0.1`: a run for each combination of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from core.catalog import recipes
from core.language import tr
from core.schema.setting import Number, Whole, settings_of
from core.schema.settings import Training

if TYPE_CHECKING:
    from core.config.choices import RecipeChoices

MOST = 100
"""Runs of one sweep at most: more are hardly meant."""
BETWEEN = re.compile(r"\s*;\s*|\s*,\s+")
"""Between two values: a semicolon, or a comma and a space. A comma alone may be that of a decimal fraction."""


def values_of(typed: object, *, whole: bool = False) -> list[float]:
    """Return the numbers of a text with several; an empty list for another text, and for one number.

    `whole`: they are whole numbers, so that each comma is between two.
    """
    if not isinstance(typed, str):
        return []
    parts = BETWEEN.split(typed.strip())
    if len(parts) == 1 and (whole or typed.count(",") > 1 - ("." in typed)):
        parts = typed.split(",")
    try:
        numbers = [float(part.replace(",", ".")) for part in parts]
    except ValueError:
        return []
    return [int(each) if each.is_integer() else each for each in numbers] if len(numbers) > 1 else []


def swept(choices: RecipeChoices) -> dict[str, list[float]]:
    """Return the settings that have several values, by name."""
    rows = settings_of(Training)
    numbers = {name: row.kind for name, row in rows.items() if isinstance(row.kind, (Whole, Number))}
    is_whole = {name: isinstance(kind, Whole) for name, kind in numbers.items()}
    if any(values_of(value, whole=True) for value in choices.settings.values()):
        own = {each.name: each.default for each in recipes.find(choices.recipe, choices.framework).settings}
        is_whole |= {name: isinstance(each, int) for name, each in own.items() if not isinstance(each, str)}
    typed = {**choices.training, **choices.settings}
    found = {name: values_of(typed[name], whole=is_whole[name]) for name in typed if name in is_whole}
    return {name: values for name, values in found.items() if values}


def expand(choices: RecipeChoices) -> list[RecipeChoices]:
    """Return the choices of each run, the last setting changing fastest: these alone without several values.

    Raises `ValueError` with a sentence for too many.
    """
    values = swept(choices)
    combinations = [dict(zip(values, each, strict=True)) for each in product(*values.values())]
    if len(combinations) > MOST:
        raise ValueError(
            tr("These are {count} runs, and {most} can be queued at once. Give fewer values.",
               count=len(combinations), most=MOST)
        )
    return [_with(choices, each) for each in combinations]


def _with(choices: RecipeChoices, values: Mapping[str, float]) -> RecipeChoices:
    of_training = {name: value for name, value in values.items() if name in choices.training}
    of_recipe = {name: value for name, value in values.items() if name not in of_training}
    training, settings = {**choices.training, **of_training}, {**choices.settings, **of_recipe}
    return replace(choices, training=training, settings=settings) if values else choices
