"""Several values in a field: what is a list of numbers, and the runs that they make."""

import pytest

from core.config.choices import RecipeChoices
from core.config.sweep import expand, values_of


@pytest.mark.parametrize(("typed", "whole", "values"), [
    ("0.01, 0.03, 0.1", False, [0.01, 0.03, 0.1]), ("0.01,0.03", False, [0.01, 0.03]), ("1e-3;1", False, [1e-3, 1]),
    ("0,01; 0,1", False, [0.01, 0.1]), ("0,05", False, []), ("1,2,3", False, [1, 2, 3]), ("64,128", True, [64, 128]),
    ("64, 128", True, [64, 128]), ("64,", True, []), ("cosine, linear", False, []), ("", False, []), (0.1, False, []),
    ("0.1", False, []), ("64 128", True, []),
])
def test_what_several_values_are(typed, whole, values) -> None:
    assert values_of(typed, whole=whole) == values


def test_each_combination_is_a_run_with_the_other_choices() -> None:
    training = {"learning_rate": "0.01, 0.1", "seed": "1,2,3", "epochs": 2}
    given = RecipeChoices(recipe="digits_mlp", devices=("cpu:0",), training=training, settings={"hidden": "32, 64"})
    runs = expand(given)
    assert [(each.training["learning_rate"], each.training["seed"], each.settings["hidden"]) for each in runs] == [
        (rate, seed, hidden) for rate in (0.01, 0.1) for seed in (1, 2, 3) for hidden in (32, 64)
    ]
    assert {each.training["epochs"] for each in runs} == {2}
    one = RecipeChoices(recipe="digits_mlp", devices=("cpu:0",), training={"learning_rate": 0.1})
    assert expand(one) == [one]


def test_too_many_runs_are_refused() -> None:
    seeds = ", ".join(map(str, range(101)))
    with pytest.raises(ValueError, match="These are 101 runs, and 100 can be queued at once"):
        expand(RecipeChoices(recipe="digits_mlp", devices=("cpu:0",), training={"seed": seeds}))
