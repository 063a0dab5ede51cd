"""Recipe files are parsed, never imported; settings have the type of their defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.catalog import recipes
from core.config.build_spec import default_learning_rate
from tests.support.running import write_recipe

SOURCE = """
    '''Reads nothing.

    More of it.
    '''
    raise SystemExit("imported!")

    def model(width=16, deep=False, name="x", rate=0.5, nothing=None, layer=object, *, tail=-1):
        pass

    def train_data(seed, root="data", width=16):
        pass

    def optimizer(params, learning_rate=0.3, momentum=0.9):
        pass

    def helper(hidden=3):
        pass
"""


@pytest.fixture
def recipe(tmp_path: Path) -> recipes.RecipeFile:
    return recipes.read(Path(write_recipe(tmp_path, SOURCE, "mine")))


def test_settings_are_keyword_arguments_with_plain_defaults(recipe: recipes.RecipeFile) -> None:
    assert (recipe.name, recipe.summary) == ("mine", "Reads nothing.")
    assert recipe.functions == ("model", "train_data", "optimizer")
    assert {setting.name: setting.default for setting in recipe.settings} == {
        "width": 16, "deep": False, "name": "x", "rate": 0.5, "nothing": None, "tail": -1,
        "root": "data", "momentum": 0.9,
    }  # fmt: skip
    assert recipe.learning_rate == default_learning_rate(recipe) == 0.3


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("width", "32", 32), ("width", 32.0, 32), ("deep", "true", True), ("deep", "off", False), ("name", "5", "5"),
        ("rate", "1e-3", 0.001), ("rate", 2, 2.0), ("nothing", "7", 7), ("nothing", "words", "words"),
    ],
)  # fmt: skip
def test_setting_is_converted_to_the_type_of_its_default(
    recipe: recipes.RecipeFile, name: str, given: object, value: object
) -> None:
    taken = recipe.with_settings({name: given}).settings[name]  # type: ignore[dict-item]
    assert (taken, type(taken)) == (value, type(value))


@pytest.mark.parametrize(("name", "given"), [("width", "1.5"), ("width", 1.5), ("deep", "perhaps"), ("rate", "fast")])
def test_setting_that_cannot_be_converted_is_refused(recipe: recipes.RecipeFile, name: str, given: object) -> None:
    with pytest.raises(ValueError, match=rf"Setting '{name}' is .*\. Give "):
        recipe.with_settings({name: given})  # type: ignore[dict-item]
