"""Modules of the user with the names of ours are imported by the user's program, and by no process of Trainyard."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.system.own_processes import own_command

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("platformdirs", "psutil", "core", "gui", "resources", "runpy", "argparse")
PLANTED = """\
import os, sys
with open(os.environ["MARK"], "a") as file:
    file.write(f"{__name__} in {sys.argv[0]}\\n")
"""
COMMAND = f"import sys; sys.path.insert(1, {str(ROOT)!r}); from trainyard import main; sys.exit(main())"
"""What the installed command does, with the working folder on the path in addition."""
SCRIPT = "import platformdirs, core\nprint('step 1 loss 0.5')\n"


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with modules that record their import."""
    folder = tmp_path / "planted"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(PLANTED)
    return folder


@pytest.mark.parametrize("path", ["{planted}", ":/nowhere"], ids=["on PYTHONPATH", "in the working folder"])
def test_user_modules_are_imported_by_the_script_alone(tmp_path: Path, planted: Path, path: str) -> None:
    """Start a command as from a shell, and with it a supervisor, a guard, and a process that collects metrics."""
    (tmp_path / "train.py").write_text(SCRIPT)
    variable, mark = path.format(planted=planted), tmp_path / "mark"
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "run", "--script", tmp_path / "train.py", "--devices", "cpu:0",
         "--runs", tmp_path / "runs"],
        cwd=planted, env={**os.environ, "PYTHONPATH": variable, "MARK": str(mark)}, capture_output=True, text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    script = tmp_path / "train.py"
    assert mark.read_text() == f"platformdirs in {script}\ncore in {script}\n"


def test_own_module_is_started_with_what_it_needs_from_pythonpath(tmp_path: Path) -> None:
    """A package that Trainyard needs may be installed in a folder of PYTHONPATH only."""
    (tmp_path / "only_here.py").write_text("print('found')")
    done = subprocess.run(
        own_command("only_here"), env={**os.environ, "PYTHONPATH": str(tmp_path)}, cwd="/", capture_output=True,
        text=True, check=True,
    )
    assert done.stdout == "found\n"
