"""Copy an included recipe to a file for the user to change."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

from core.catalog.recipes import BUILT_IN, RecipeFile
from core.language import tr
from core.schema.settings import RECIPE_FUNCTIONS
from resources import ROOT

INSTALLED = "Path(__file__).resolve().parent.parent.parent"
"""How the included recipes name the folder `resources`, from which they read data."""


def check_copy(recipe: RecipeFile, target: Path) -> None:
    """Raise `ValueError` with a sentence if the recipe cannot be copied, or not to this file because of its name."""
    check_source(recipe)
    if target.suffix != ".py":
        raise ValueError(tr("{path} is not the name of a Python file. Name a file that ends with .py.", path=target))


def check_source(recipe: RecipeFile) -> None:
    """Raise `ValueError` with a sentence if the recipe is not one that comes with Trainyard."""
    if not recipe.path.is_relative_to(BUILT_IN):
        raise ValueError(
            tr(
                "{path} is a file of your own, which you can change as it is. Choose a built-in workload to copy.",
                path=recipe.path,
            )
        )


def standalone(recipe: RecipeFile) -> str:
    """Return the source of an included recipe for a file elsewhere, with comments about how to change it."""
    source = recipe.path.read_text(encoding="utf-8").replace(INSTALLED, f"Path({json.dumps(str(ROOT))})")
    lines, docstring = source.splitlines(), ast.parse(source).body[0]
    return "\n".join([*lines[: docstring.end_lineno], "", *_how_to_change(recipe), *lines[docstring.end_lineno :], ""])


def _how_to_change(recipe: RecipeFile) -> Iterator[str]:
    """Yield comments for someone who is going to change the file."""
    others = [name for name in RECIPE_FUNCTIONS if name not in recipe.functions]
    yield f"# A copy of Trainyard's recipe {recipe.name}, to be changed."
    yield "# Arguments with plain defaults are settings: a field in the window, --set NAME=VALUE on the command line."
    yield f"# A run would also call these functions: {', '.join(others)}."
    yield "# They are described in Trainyard's documents, in the menu Help."
