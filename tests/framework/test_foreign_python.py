"""Runs under another Python version in which Trainyard is not installed."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import core
from core.config.validation import recipe_problems
from core.pythons.discovery import Found, find_pythons
from core.pythons.python_info import MIN_FOR_RECIPES, PythonInfo
from core.runs.facts import RunState
from tests.support.commands import call
from tests.support.pythons import ask, install, make_environment, of_version, packages_of, write_program
from tests.support.running import make_spec, script_spec, train, write_recipe

TELLS = """\
import json, sys
for step in range(1, 4):
    print(f"step {step}: loss {1 / step:.3f}")
try:
    import core
except ImportError:
    core = None
json.dump({"version": sys.version_info[:2], "ours": core is not None, "path": sys.path}, open(sys.argv[1], "w"))
"""


@pytest.fixture(scope="module")
def foreign() -> str:
    """The oldest other Python on this machine that supports recipes and lacks PyTorch."""
    found = sorted(
        (facts.version, facts.path) for facts in map(_facts, find_pythons(None)) if facts and _is_foreign(facts)
    )
    if not found:
        pytest.skip("This machine has no Python of another version from 3.10 on.")
    return found[0][1]


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Another environment of the same Python version, with the frameworks, without Trainyard and its dependencies."""
    python = make_environment(tmp_path_factory.mktemp("apart") / "env")
    ours = ("pyside6", "shiboken6", "pyqtgraph", "platformdirs", "pynvml", "nvidia_ml_py", "trainyard", "psutil")
    for each in packages_of(Path(sys.executable)).iterdir():
        if not each.name.lower().startswith((*ours, "__editable__", "_pytest", "pytest")) and each.suffix != ".pth":
            (packages_of(python) / each.name).symlink_to(each)
    return str(python)


@pytest.fixture(scope="module")
def foreign_with(apart: str) -> Callable[[str], str]:
    """Finds another Python with a framework, preferring another version.

    Searches this machine and the folder of the project. Where none has the framework, it is an environment of the
    same version.
    """
    infos = [each for each in map(_facts, find_pythons(Path(core.__file__).parent)) if each is not None]

    def choose(framework: str) -> str:
        module = {"pytorch": "torch"}.get(framework, framework)
        fit = [
            each.path
            for each in sorted(infos, key=lambda each: (each.version[:2] == sys.version_info[:2], each.version))
            if getattr(each, module) and each.prefix != sys.prefix and each.too_old(MIN_FOR_RECIPES) is None
        ]
        able = (path for path in fit if not recipe_problems(replace(make_spec("digits_mlp"), python=path)))
        return next(able, apart)

    return choose


def _facts(found: Found) -> PythonInfo | None:
    try:
        return ask(found.path)
    except ValueError:  # skip a Python that does not answer
        return None


def _is_foreign(facts: PythonInfo) -> bool:
    is_ours = facts.version[:2] == sys.version_info[:2]
    return facts.too_old(MIN_FOR_RECIPES) is None and not is_ours and facts.torch is None


@pytest.mark.slow
def test_script_runs_under_another_python_and_is_measured(tmp_path: Path, runs_root: Path, foreign: str) -> None:
    (tmp_path / "tells.py").write_text(TELLS)

    ended = train(script_spec("tells.py", "told.json", cwd=tmp_path, python=foreign), runs_root)

    assert ended.state is RunState.FINISHED, ended.run.log_end()
    assert ended.losses() == [1.0, 0.5, 0.333]
    answer = json.loads((tmp_path / "told.json").read_text())
    assert answer["version"] != list(sys.version_info[:2])
    assert answer["ours"] is False


@pytest.mark.e2e
def test_worker_under_another_python_needs_only_its_framework(runs_root: Path, foreign: str) -> None:
    """Before the framework, a worker imports only the standard library and Trainyard code valid in old Pythons."""
    spec = replace(make_spec("digits_mlp"), python=foreign)

    ended = train(spec, runs_root)

    assert f"pytorch could not be imported by {foreign}: ModuleNotFoundError: No module named 'torch'" in ended.failure


def test_recipe_is_refused_if_the_python_lacks_its_framework(runs_root: Path, foreign: str, capsys) -> None:
    err = refusal(capsys, "digits_mlp", foreign, runs_root)
    assert f"PyTorch is not installed in {foreign}. Install it there" in err


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("framework", "strategy", "devices"),
    [("pytorch", "single", "cpu:0"), ("pytorch", "ddp", "cpu:0,cpu:1"), ("tensorflow", "single", "cpu:0"),
     ("keras", "mirrored", "cpu:0,cpu:1")],
)
def test_recipe_under_another_python_has_the_same_losses(runs_root, foreign_with, framework, strategy, devices) -> None:
    """Other versions of Python, the framework and numpy, on one and two devices, have the same losses."""
    spec = make_spec("digits_mlp", framework=framework, strategy=strategy, devices=devices, epochs=1)

    theirs = train(replace(spec, python=foreign_with(framework)), runs_root)

    assert theirs.state is RunState.FINISHED, theirs.run.log_end()
    ours = train(make_spec("digits_mlp", framework=framework, epochs=1), runs_root)
    assert len(theirs.losses()) == 23
    assert theirs.losses() == pytest.approx(ours.losses(), rel=1e-4)


@pytest.mark.e2e
@pytest.mark.parametrize("framework", ["pytorch", "keras"])
def test_recipe_trains_in_environment_without_trainyard(runs_root: Path, apart: str, framework: str) -> None:
    spec = make_spec("digits_mlp", framework=framework, epochs=1)

    ended = train(replace(spec, python=apart), runs_root)

    assert ended.state is RunState.FINISHED, ended.run.log_end()
    assert len(ended.losses()) == 23


def test_missing_package_of_a_recipe_is_named_before_the_start(tmp_path: Path, runs_root: Path, capsys) -> None:
    """PyTorch is installed without numpy, which reads the digits."""
    python = make_environment(tmp_path / "env")
    install(python, "torch", "2.6.0")

    err = refusal(capsys, "digits_mlp", python, runs_root)

    assert "digits_mlp.py needs the package numpy, which Python 3." in err
    assert f"at {python} does not have. Install it (uv pip install --python {python} numpy)" in err
    assert "torch" not in err
    assert not runs_root.exists()


def test_missing_package_of_a_user_recipe_is_named(tmp_path: Path, runs_root: Path, capsys) -> None:
    source = "import torch, nowhere_to_be_found\n\ndef model(): ...\ndef train_data(): ...\n"
    err = refusal(capsys, write_recipe(tmp_path, source), sys.executable, runs_root)
    assert "recipe.py needs the package nowhere_to_be_found, which Python" in err


def test_python_too_old_for_recipes_is_refused(tmp_path: Path, runs_root: Path, capsys) -> None:
    old = of_version(3, 9)
    python = write_program(tmp_path / "env" / "bin" / "python", f'#!/bin/sh\nexec {old} "$@"\n')
    for name in ("torch", "numpy"):  # folders that exist, but that this Python cannot import
        (tmp_path / "env" / "lib" / "python3.9" / "site-packages" / name).mkdir(parents=True)
        (tmp_path / "env" / "lib" / "python3.9" / "site-packages" / name / "__init__.py").touch()

    err = refusal(capsys, "digits_mlp", python, runs_root)
    assert f"{python} is Python 3.9." in err
    assert "and recipes need Python 3.10 or later" in err


def refusal(capsys: pytest.CaptureFixture[str], recipe: str, python: object, runs_root: Path) -> str:
    """Return why a recipe is not started with a Python."""
    words = ("run", recipe, "--devices", "cpu:0", "--python", python, "--runs", runs_root)
    code, _, err = call(capsys, *words)
    assert code == 2
    return err
