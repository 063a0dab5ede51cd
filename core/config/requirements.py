"""Check what a recipe needs from its Python besides the framework, which `core.config.validation` checks."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

from core.catalog.frameworks import FRAMEWORKS
from core.pythons.facts import MIN_FOR_RECIPES
from core.scripts.analysis import analyse_script
from core.scripts.problems import problems

if TYPE_CHECKING:
    from core.schema.spec import RunSpec


def recipe_problems(spec: RunSpec) -> list[str]:
    """What would end its workers as soon as they load the recipe: a sentence each with the remedy; none for a script.

    The Python is too old, or does not understand the recipe, or lacks a package. It is asked, in a process of its own,
    unless it is our own and has all that is needed.
    """
    if spec.recipe is None:
        return []
    try:
        look = analyse_script(spec.recipe.path, cwd=spec.working_dir, python=spec.python)
    except ValueError as error:
        return [str(error)]
    frameworks = {module for row in FRAMEWORKS for module in row.imports}
    look = replace(look, modules=tuple(each for each in look.modules if each not in frameworks))
    if spec.python == sys.executable and all(map(PathFinder.find_spec, set(look.imports) - frameworks)):
        return []
    return problems(look, python=spec.python, cwd=spec.working_dir, min_version=MIN_FOR_RECIPES)
