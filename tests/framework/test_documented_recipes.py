"""Every recipe in docs/recipes.md and docs/recipe-examples.md trains, with the command that its first line shows."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from core.catalog import recipes
from core.cli.parser import command_parser
from core.cli.run_options import choices
from core.config.choices import RecipeChoices, compose
from core.devices.cpu import cpu_devices
from core.runs.facts import RunState
from tests.support.running import train, write_recipe

PAGES = [Path(__file__).resolve().parents[2] / "docs" / name for name in ("recipes.md", "recipe-examples.md")]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SNIPPETS = [each for page in PAGES for each in BLOCK.findall(page.read_text(encoding="utf-8"))]
SOURCES = [each for each in SNIPPETS if "def train_data(" in each]
"""Whole recipes. `test_epoch_functions` and `test_keras_functions` add the other snippets to recipes of their own."""
COMMAND = re.compile(r"# trainyard (run mine\.py .*)\n")


def documented(begin: str) -> str:
    """Return the block of Python in the documents that begins so."""
    (found,) = [each for each in SNIPPETS if each.startswith(begin)]
    return found


def named(source: str) -> str:
    """Return the first line of a recipe's docstring, or its first import."""
    return next(line.strip('"') for line in source.splitlines() if line and not line.startswith("#"))


@pytest.mark.parametrize("source", [pytest.param(source, id=named(source)) for source in SOURCES])
def test_documented_recipe_trains(source: str, runs_root: Path, tmp_path: Path) -> None:
    if "transformers" in source:
        pytest.importorskip("transformers")
    path = write_recipe(tmp_path, source, "mine")
    assert recipes.read(Path(path)).unknown_functions == ()
    shown = COMMAND.match(source)
    words = shlex.split(re.sub(r"gpu:(\d)", r"cpu:\1", shown[1]) if shown else "run mine.py --devices cpu:0")
    words += [] if "--epochs" in words else ["--epochs", "2"]
    if re.search(r"^(import|from) keras", source, re.MULTILINE) and "--framework" not in words:
        words += ["--framework", "keras"]
    options = command_parser(lambda _: 0).parse_args(words)
    options.arguments = []  # of a script
    chosen = choices(options)
    assert isinstance(chosen, RecipeChoices)
    followed = train(compose(replace(chosen, recipe=path), cpu_devices()), runs_root)
    assert followed.state is RunState.FINISHED, f"{followed.run.facts.error}\n{followed.run.log_end()}"
    losses = followed.losses()
    assert losses[-1] < losses[0] or "def optimizers" in source  # the sum of opposed losses need not fall
    if "metrics()" in source:
        assert "val_mean_absolute_error" in followed.run_series.metrics
