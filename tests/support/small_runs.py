"""Short runs of recipes that are written in tests, and the comparison of their curves."""

from __future__ import annotations

from typing import Any

import pytest

from core.schema.spec import RunSpec
from tests.support.running import make_spec, write_recipe

TWO = "cpu:0,cpu:1"


def recipe_fixture(name: str, source: str) -> Any:
    """Return a fixture: the path of a recipe with this source, which no test of the module changes."""

    @pytest.fixture(scope="module")
    def made(tmp_path_factory: pytest.TempPathFactory) -> str:
        return write_recipe(tmp_path_factory.mktemp(name), source, name)

    return made


def small_spec(recipe: str, strategy: str = "single", **choices: Any) -> RunSpec:
    """Return the spec of two epochs in batches of 16, on as many devices as the strategy is for."""
    devices = "cpu:0" if strategy == "single" else TWO
    return make_spec(recipe, strategy=strategy, **{"devices": devices, "epochs": 2, "batch_size": 16, **choices})


def assert_same_curves(found: dict[str, list[float]], wanted: dict[str, list[float]], relative: float) -> None:
    """Check that there are the same metrics with the same values."""
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        assert found[name] == pytest.approx(values, rel=relative), name
