"""Run every command that the README and the documents show, in the order in which they show them, and every recipe.

Each document has a folder of runs of its own. GPUs are replaced by CPU devices, RUN by the newest run, RUN2 by the
one before it. A run that was queued is meant only where the queue is changed, or a run stopped.
"""

import re
import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from core.catalog import recipes
from core.catalog.strategies import STRATEGIES
from core.config.choices import RecipeChoices, compose
from core.devices.cpu import cpu_devices
from core.runs.facts import RunState, state_info
from core.runs.run import Run
from core.schema.paths import QUEUE_FILE
from tests.support.commands import call, choices_of
from tests.support.queueing import stop
from tests.support.running import Followed, train, write_recipe

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
SHELL_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
REPLACED = {"nvidia": "cpu", "20GB": "1GB", "200": "20000"}
"""What this machine may not have, and what the commands ask for here in its place; and epochs of the fake worker, which
must last until the run is paused, resumed and stopped."""
OWN_RECIPE = "mine.py"
"""The README's recipe."""
TRAIN = """
import argparse, os
options = argparse.ArgumentParser()
options.add_argument("--lr", type=float, default=0.5)
lr = options.parse_args().lr
for step in range(1, 6):
    print(f"step {step} loss: {lr / step:.4f}")
"""


def commands(page: Path) -> list[str]:
    """Return the lines of the shell blocks of a page."""
    lines = "".join(SHELL_BLOCK.findall(page.read_text(encoding="utf-8"))).splitlines()
    return [line for line in lines if line.strip()]


def trainyard_commands(page: Path) -> list[list[str]]:
    """Return the arguments of each `trainyard` command of a page."""
    words = [shlex.split(line, comments=True) for line in commands(page)]
    return [each[1:] for each in words if each[0] == "trainyard"]


def needs_framework(page: Path, arguments: list[str], following: list[str]) -> bool:
    """Return whether the framework must train: the README's recipe, and a model that is exported.

    The others are recipes of ours, which `test_matrix` and `test_shipped_recipes` train. For them the fake worker
    trains, and all else is real.
    """
    if page.stem == "README" and OWN_RECIPE in arguments:
        return True
    return arguments[0] == "export" or (following[:1] == ["export"] and "--model" in following)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make the working folder that the documents assume: a script, a package and the README's recipe."""
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").write_text(TRAIN, encoding="utf-8")
    recipe = PYTHON_BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))[0]
    (tmp_path / OWN_RECIPE).write_text(recipe, encoding="utf-8")
    return tmp_path


@pytest.mark.e2e(pooled=True)
@pytest.mark.parametrize("page", [page for page in PAGES if trainyard_commands(page)], ids=lambda page: page.stem)
def test_every_documented_command_succeeds(page: Path, folder: Path, fake_python: Path, monkeypatch, capsys) -> None:
    """Commands are called in this process, and PyTorch is forked from the pool: to start each takes the most time."""
    runs = folder / "runs"
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    known: list[Path] = []
    for arguments, following in pairwise([*trainyard_commands(page), []]):
        if arguments[0] == "check" and "--quick" not in arguments:
            continue  # takes minutes, with real frameworks: see `test_check_trainings`
        if arguments[0] == "trace":
            continue  # the fake worker has no profiler: see `test_live_changes`
        words = [_filled_in(word, known, queued=arguments[0] in {"queue", "stop"}) for word in arguments]
        with pytest.MonkeyPatch.context() as patch:
            if not needs_framework(page, arguments, following):
                for name in ("PYTORCH", "TENSORFLOW", "KERAS"):
                    patch.setenv(f"TRAINYARD_PYTHON_{name}", str(fake_python))
            if following[:1] == ["stop"]:
                patch.setenv("FAKE_WORKER_STEP_S", "1")  # else the run would have ended before it is stopped
            code, out, err = call(capsys, words[0], "--runs", runs, *words[1:])
        assert code == 0, f"trainyard {shlex.join(arguments)}: {out}{err}"
        known += sorted(set(_folders(runs)) - set(known))
    followed = [Followed(Run.attach(each)) for each in _folders(runs)]
    stop(*(each for each in followed if not state_info(each.poll().state).over))


def test_readme_has_every_strategy_of_each_framework() -> None:
    table = (
        (ROOT / "README.md").read_text(encoding="utf-8").partition("## What trains where\n\n")[2].partition("\n\n")[0]
    )
    heading, _, *rows = [line.split("|")[2:-1] for line in table.splitlines()]
    for column, framework in enumerate(("pytorch", "tensorflow", "keras")):
        assert framework in heading[column].lower()
        there = {each.name for each in STRATEGIES if each.framework == framework and each.target}
        assert set(re.findall(r"`(\w+)`", " ".join(row[column] for row in rows))) == there


def test_every_documented_make_target_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    shown = {line.split()[1] for page in PAGES for line in commands(page) if line.startswith("make ")}
    assert shown >= {"run", "test", "test-fast", "lint", "bench"}
    assert [name for name in shown if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_every_documented_file_exists() -> None:
    missing = [
        f"{page.name}: {name}"
        for page in PAGES
        for name in re.findall(r"`((?:core|gui|resources|tests|docs)/[\w./-]+)`", page.read_text(encoding="utf-8"))
        if not (ROOT / name).exists() and "results/" not in name  # written by `make bench`
    ]
    assert missing == []


def test_every_link_between_documents_works() -> None:
    broken = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", CODE_BLOCK.sub("", page.read_text(encoding="utf-8")))
        if not (page.parent / target).exists()
    ]
    assert broken == []


def _filled_in(word: str, known: list[Path], *, queued: bool) -> str:
    """Return a word with the name of the newest run for RUN. `known`: the folders of runs, oldest first."""
    name, colon, mode = word.partition(":")
    if name not in {"RUN", "RUN2"}:
        return REPLACED.get(word, re.sub(r"gpu:(\d)", r"cpu:\1", word))
    meant = [each for each in known if queued or not (each / QUEUE_FILE).exists()]
    return meant[-1 if name == "RUN" else -2].name + colon + mode


def _folders(runs: Path) -> list[Path]:
    """Return the folders of runs; beside them lie the files of scaling tables."""
    return [each for each in runs.iterdir() if each.is_dir()] if runs.exists() else []


# -- recipes ---------------------------------------------------------------------------------------


RECIPES = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("recipes.md", "recipe-examples.md"))
SNIPPETS = PYTHON_BLOCK.findall(RECIPES)
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
    chosen = choices_of(*words[1:])
    assert isinstance(chosen, RecipeChoices)
    followed = train(compose(replace(chosen, recipe=path), cpu_devices()), runs_root)
    assert followed.state is RunState.FINISHED, f"{followed.run.facts.error}\n{followed.run.log_end()}"
    losses = followed.losses()
    assert losses[-1] < losses[0] or "def optimizers" in source  # the sum of opposed losses need not fall
    if "metrics()" in source:
        assert "val_mean_absolute_error" in followed.run_series.metrics
