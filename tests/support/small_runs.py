"""Short runs of recipes that are written in tests, and the comparison of their curves."""

from typing import Any

import pytest

from core.runs.facts import RunState
from core.schema.spec import RunSpec
from tests.support.running import Followed, make_spec, write_recipe

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


def assert_same_curve(found: Followed, wanted: Followed, relative: float = 1e-5) -> None:
    """Check that two runs have finished with the same metrics. Those of training are compared where both have them."""
    assert found.state is RunState.FINISHED, found.run.facts.error
    assert found.run_series.metrics.keys() == wanted.run_series.metrics.keys()
    for name, series in wanted.run_series.metrics.items():
        other = found.run_series.metrics[name]
        if is_of_training(name):
            known, values = (dict(zip(each.steps, each.values, strict=True)) for each in (series, other))
            common = known.keys() & values.keys()
            assert 1 in common, name
            assert all(values[step] == pytest.approx(known[step], rel=relative) for step in common), name
        else:
            assert other.values.tolist() == pytest.approx(series.values.tolist(), rel=relative), name


def is_of_training(name: str) -> bool:
    """Return whether a metric is measured as often as there is time for."""
    return name not in {"loss", "learning_rate"} and not name.startswith("val_")
