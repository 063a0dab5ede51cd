"""A wheel in an environment of its own, with what it requires and without a framework, far from the repository."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.pythons import make_environment, packages_of

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.e2e, pytest.mark.slow]
OURS = ("core", "gui", "resources")
RECIPE = """\
import core, gui, resources, torch
assert {core.MINE, gui.MINE, resources.MINE} == {"mine"}
def model(): return torch.nn.Linear(2, 2)
def train_data(): return torch.zeros(8, 2), torch.zeros(8, dtype=torch.long)
"""
SCRIPT = """\
import importlib.util, sys
assert not [name for name in ("core", "gui", "resources", "torch") if importlib.util.find_spec(name)]
print("epoch 1 loss 0.5")
"""
WINDOW = """\
import sys
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QComboBox
import trainyard

def look():
    (window,) = [each for each in QApplication.topLevelWidgets() if each.windowTitle().endswith("Trainyard")]
    if window.findChild(QComboBox, "recipeBox").findText("digits_mlp") < 0 or not window.isVisible():
        return QTimer.singleShot(20, look)
    window.close()

def exec(app):
    QTimer.singleShot(0, look)
    return run()

run, QApplication.exec = QApplication.exec, exec
sys.exit(trainyard.main())
"""
"""Open the window as the command does, and close it once it is visible and has the included recipes."""


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment with the wheel, and the names in its folder of packages that the wheel brought."""

    python: Path
    names: frozenset[str]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build and install the wheel. What it requires is linked from the environment of the tests, not downloaded."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    only_this = ["--no-deps", "--no-index"]
    subprocess.run([*pip, "wheel", *only_this, "--no-build-isolation", "--wheel-dir", folder, ROOT], check=True)
    python = make_environment(folder / "env")
    packages = packages_of(python)
    before = set(packages.iterdir())
    subprocess.run([*pip, "--python", python, "install", *only_this, *folder.glob("*.whl")], check=True)
    names = frozenset(each.name for each in set(packages.iterdir()) - before)
    (own,) = metadata.distributions(name="trainyard", path=[str(packages)])
    for path in {path for each in required(own) for path in top_level(each)}:
        (packages / path.name).symlink_to(path)
    return Installed(python, names)


def required(distribution: metadata.Distribution) -> list[metadata.Distribution]:
    """Return the distributions that this one requires, and those that they require."""
    found = []
    for each in map(Requirement, distribution.requires or ()):
        if each.marker is None or each.marker.evaluate({"extra": ""}):
            needed = metadata.distribution(each.name)
            found += [needed, *required(needed)]
    return found


def top_level(distribution: metadata.Distribution) -> set[Path]:
    """Return the files and folders of a distribution that are in the folder of packages itself."""
    firsts = {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}
    return {Path(str(distribution.locate_file(first))) for first in firsts}


def run(installed: Installed, *words: object, **variables: str) -> str:
    """Run a program of the environment with these variables, and return what it prints."""
    program, *arguments = words
    done = subprocess.run(
        [installed.python.with_name(str(program)), *map(str, arguments)],
        cwd=installed.python.parents[2], env={**os.environ, **variables}, capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_only_top_level_name_of_a_wheel_is_trainyard(installed: Installed) -> None:
    (information,) = installed.names - {"trainyard"}
    assert information.endswith(".dist-info")
    folder = packages_of(installed.python)
    assert (folder / information / "top_level.txt").read_text() == "trainyard\n"
    contents = {path.name for path in (folder / "trainyard").iterdir()}
    assert contents - {"__pycache__"} == {*OURS, "__init__.py", "__main__.py"}
    for name in OURS:
        files = {path.relative_to(ROOT) for path in (ROOT / name).rglob("*") if path.is_file()}
        missing = {path for path in files if not (folder / "trainyard" / path).is_file()}
        assert {path for path in missing if "__pycache__" not in path.parts} == set()


def test_window_of_a_wheel_opens(installed: Installed, runs_root: Path) -> None:
    run(installed, "python", "-c", WINDOW, "--runs", runs_root, QT_QPA_PLATFORM="offscreen")


def test_command_of_a_wheel_is_found_in_every_way(installed: Installed, tmp_path: Path) -> None:
    words = run(installed, "trainyard", "--version")
    assert words == run(installed, "python", "-m", "trainyard", "--version")
    run(installed, "trainyard", "desktop", "install", XDG_DATA_HOME=str(tmp_path))
    assert str(installed.python.with_name("trainyard")) in (tmp_path / "applications/trainyard.desktop").read_text()


def test_run_of_a_wheel_trains_in_another_python_with_the_users_packages(installed, tmp_path, runs_root) -> None:
    """The user's packages with names of ours are beside the recipe, and on PYTHONPATH."""
    for name in OURS:
        (tmp_path / f"{name}.py").write_text("MINE = 'mine'")
    (tmp_path / "own.py").write_text(RECIPE)
    variables = {"TRAINYARD_PYTHON_PYTORCH": sys.executable, "PYTHONPATH": str(tmp_path)}
    for recipe in ("digits_mlp", tmp_path / "own.py"):
        ended = run(
            installed, "trainyard", "--runs", runs_root, "run", recipe, "--devices", "cpu:0,cpu:1", "--strategy", "ddp",
            "--epochs", "1", "--json", **variables,
        )
        assert json.loads(ended)["state"] == "finished"


def test_script_in_the_environment_of_a_wheel_finds_none_of_our_names(installed, tmp_path, runs_root) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    words = ["--runs", runs_root, "run", "--script", tmp_path / "train.py", "--devices", "cpu:0", "--json"]
    ended = run(installed, "trainyard", *words, "--python", installed.python)
    assert json.loads(ended)["state"] == "finished"
