"""Analyse scripts without importing them: launch mode, imports, and problems that would stop them at once."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from core.pythons.python_info import PythonProbe
from core.scripts.analysis import ScriptAnalysis, analyse_script
from core.scripts.problems import ProblemCache, problems
from tests.support.dialects import ONE, PER_DEVICE, cases
from tests.support.present import present
from tests.support.pythons import (
    RUINED,
    count_starts,
    has_version,
    install,
    make_environment,
    of_version,
    packages_of,
    write_program,
)
from tests.support.waiting import PATIENCE_S, wait_until

NOWHERE = "/nowhere/python"
"""A Python that does not exist, for analyses that start none."""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a Python that is asked for a module answer however slowly."""
    monkeypatch.setattr("core.scripts.analysis.PythonProbe", partial(PythonProbe, timeout_s=PATIENCE_S))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the interpreter of an environment without packages; tests must not change it."""
    return str(make_environment(tmp_path_factory.mktemp("bare") / ".venv"))


def write(folder: Path, source: str, name: str = "train.py") -> Path:
    """Write a source file."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    return path


def look(folder: Path, source: str) -> ScriptAnalysis:
    """Analyse a script with this source."""
    return analyse_script(str(write(folder, source)), cwd=str(folder), python=NOWHERE)


def asked(look: ScriptAnalysis, python: str, **options: object) -> list[str]:
    """Return the problems of the script with this Python, without using a cache."""
    cwd = str(options.pop("cwd", look.folder))
    return problems(look, python=python, cwd=cwd, timeout_s=PATIENCE_S, cache=ProblemCache(), **options)


class TestGuess:
    @pytest.mark.parametrize(
        ("launch", "source", "words"),
        [(mode, *case) for mode, texts in (("per-device", PER_DEVICE), ("one", ONE)) for case in cases(texts).values()],
        ids=[*cases(PER_DEVICE), *cases(ONE)],
    )
    def test_launch_mode_is_guessed_with_a_reason(self, tmp_path: Path, launch: str, source: str, words: str) -> None:
        seen = look(tmp_path, source)
        assert seen.launch == launch
        assert words in seen.why
        assert seen.why[0].isupper()
        assert seen.why.endswith(".")
        assert "{" not in seen.why

    def test_launch_hint_in_a_local_module_is_found_and_its_file_named(self, tmp_path: Path) -> None:
        write(tmp_path, "from .ranks import local\n", "tools/__init__.py")
        write(tmp_path, "import os\nlocal = lambda: int(os.environ['LOCAL_RANK'])\n", "tools/ranks.py")
        seen = look(tmp_path, "import torch\nfrom tools import local\n")
        assert (seen.launch, seen.why) == (
            "per-device", "It reads LOCAL_RANK in tools/ranks.py, as programs written for torchrun do."
        )

    def test_frameworks_are_found_in_local_modules_two_levels_deep(self, tmp_path: Path) -> None:
        write(tmp_path, "import second, first\n", "first.py")
        write(tmp_path, "import third\nimport tensorflow as tf\nlayer = tf.keras.layers.Dense\n", "second.py")
        write(tmp_path, "import jax\n", "third.py")
        write(tmp_path, "", "torch_like/__init__.py")
        seen = look(tmp_path, "def main():\n    import first\nimport lightning\nimport torch_like\n")
        assert seen.frameworks == ("torch", "tensorflow", "keras")
        write(tmp_path, "", "keras/__init__.py")
        assert look(tmp_path, "import keras\n").frameworks == (), "a local folder with the name of a framework"


class TestNeeds:
    def test_only_unconditional_imports_are_required(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            "import needed_by_helper\ntry:\n    import nice\nexcept ImportError:\n    nice = None\n",
            "helper.py",
        )
        write(tmp_path, "import needed_by_lazy\n", "lazy.py")
        seen = look(
            tmp_path,
            """\
            from __future__ import annotations
            import json, os.path
            import needed.part as part
            from also_needed import thing
            from typing import TYPE_CHECKING
            import helper
            try:
                import one_of_two
            except ModuleNotFoundError:
                import other_of_two
            try:
                import tried_for_another_reason
            except ValueError:
                pass
            try:
                import anything
            except Exception:
                pass
            with suppress(ImportError):
                import suppressed
            if TYPE_CHECKING:
                import only_for_types
            if os.environ.get("USE_WANDB"):
                import wandb
            def f():
                import in_a_function
                import lazy
            class C:
                import in_a_class
            if __name__ == "__main__":
                import in_main
            """,
        )
        assert set(seen.imports) == {
            "needed", "also_needed", "tried_for_another_reason", "in_a_class", "in_main", "needed_by_helper"
        }
        assert {Path(each).name for each in seen.files} == {"train.py", "helper.py"}

    def test_relative_imports_are_resolved_in_the_package_of_the_module(self, tmp_path: Path) -> None:
        write(tmp_path, "import of_the_package\n", "pkg/__init__.py")
        write(tmp_path, "from . import model\nfrom .deep.layers import block\n", "pkg/train.py")
        write(tmp_path, "from ..pkg import nothing\nimport of_the_model\n", "pkg/model.py")
        write(tmp_path, "from ..model import x\nimport of_the_layers\n", "pkg/deep/layers.py")
        seen = analyse_script("", module="pkg.train", cwd=str(tmp_path), python=NOWHERE)
        assert set(seen.imports) == {"of_the_package", "of_the_model", "of_the_layers"}
        assert (seen.name, seen.folder) == ("pkg.train", str(tmp_path))

    def test_analysis_executes_no_code_of_the_script(self, tmp_path: Path) -> None:
        write(tmp_path, "open('executed', 'w')\n", "helper.py")
        write(tmp_path, "import helper\nopen('executed', 'w')\n", "pkg/__init__.py")
        write(tmp_path, "open('executed', 'w')\n", "pkg/train.py")
        first = look(tmp_path, "import helper\nopen('executed', 'w')\n")
        second = analyse_script("", module="pkg.train", cwd=str(tmp_path), python=sys.executable)
        for each in (first, second):
            assert asked(each, sys.executable, cwd=tmp_path) == []
        assert not (tmp_path / "executed").exists()
        assert not Path("executed").exists()


class TestWhatCannotBeRun:
    def test_invalid_script_is_refused_with_a_reason(self, tmp_path: Path) -> None:
        write(tmp_path, "import os\n", "package/__init__.py")
        (tmp_path / "binary.py").write_bytes(b"\x7fELF\0\0\1")
        (tmp_path / "latin.py").write_bytes("# Größe\nx = 1\n".encode("latin-1"))
        write(tmp_path, "# coding: klingon\n", "unknown.py")
        write(tmp_path, "#!/usr/bin/env bash\nset -e; for x in 1; do torchrun train.py; done\n", "train.sh")
        write(tmp_path, '{"sheets": []}', "book.ipynb")
        os.mkfifo(tmp_path / "pipe.py")
        with (tmp_path / "huge.py").open("wb") as file:
            file.truncate(20 * 1024 * 1024)
        for name, sentence in {
            "gone.py": "There is no script .*gone.py. Check the path", "package": "folder without a __main__.py",
            "binary.py": "binary.py is not a text file: it contains NUL", "latin.py": "Python cannot decode latin.py",
            "unknown.py": "cannot decode unknown.py: unknown encoding", "pipe.py": "is not a file",
            "train.sh": "train.sh is not a Python program: it is for /usr/bin/env bash",
            "book.ipynb": "is not a notebook: it has no cells",
            "huge.py": "larger than 16 MB", "": "No script is given", "a\0b.py": "No script is given",
            "x" * 300 + ".py": "cannot be read|There is no script",
        }.items():
            with pytest.raises(ValueError, match=sentence):
                analyse_script(name, cwd=str(tmp_path), python=NOWHERE)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_script_without_read_permission_is_refused(self, tmp_path: Path) -> None:
        write(tmp_path, "").chmod(0)
        with pytest.raises(ValueError, match="cannot be read: Permission denied"):
            analyse_script("train.py", cwd=str(tmp_path), python=NOWHERE)

    def test_script_with_a_declared_encoding_and_folder_with_main_py_are_read(self, tmp_path: Path) -> None:
        (tmp_path / "train.py").write_bytes("# coding: latin-1\nimport torch # Größe\n".encode("latin-1"))
        assert analyse_script("train.py", cwd=str(tmp_path), python=NOWHERE).frameworks == ("torch",)
        write(tmp_path, "import helper\n", "project/__main__.py")
        write(tmp_path, "import torch\n", "project/helper.py")
        seen = analyse_script("project", cwd=str(tmp_path), python=NOWHERE)
        assert (seen.folder, seen.frameworks) == (str(tmp_path / "project"), ("torch",))

    def test_folder_of_a_symlinked_script_is_that_of_its_target(self, tmp_path: Path) -> None:
        write(tmp_path, "import helper\n", "real/train.py")
        write(tmp_path, "import torch\n", "real/helper.py")
        (tmp_path / "link.py").symlink_to("real/train.py")
        seen = analyse_script("link.py", cwd=str(tmp_path), python=NOWHERE)
        (tmp_path / "real" / "train.py").write_text("import sys; print(sys.path[0])")
        done = subprocess.run([sys.executable, tmp_path / "link.py"], capture_output=True, text=True, check=True)
        assert seen.folder == done.stdout.strip() == str(tmp_path / "real")
        assert seen.frameworks == ("torch",)


class TestModules:
    def test_installed_module_is_found_without_importing_its_package(self, tmp_path: Path) -> None:
        python = make_environment(tmp_path / "env")
        train = "import os, torch\nfrom . import more\nimport neighbour\nos.environ['RANK']\n"
        install(python, "toolbox", train_py=train, more_py="import tensorflow\n")
        install(python, "neighbour")
        (packages_of(python) / "neighbour" / "__init__.py").write_text("import jax\n" + RUINED)
        seen = analyse_script("", module="toolbox.train", cwd=str(tmp_path), python=str(python))
        assert seen.launch == "per-device"
        assert seen.frameworks == ("torch", "tensorflow")  # imports of other packages do not count
        assert seen.folder == str(tmp_path)
        assert seen.imports == ("torch", "neighbour", "tensorflow")

    def test_invalid_or_missing_module_is_refused(self, tmp_path: Path, bare: str) -> None:
        write(tmp_path, "", "package/__init__.py")
        for name, python, sentence in (
            ("gone.train", bare, f"no module gone.train, neither in the working folder {tmp_path} nor in {bare}"),
            ("package", bare, "package is a package without a __main__.py"),
            ("json", bare, "json is a package without a __main__.py"), ("train.py", bare, "no module train.py"),
            ("a-b", bare, "is not a module name"), ("", bare, "is not a module name"),
            ("toolbox", NOWHERE, "There is no Python at /nowhere/python"),
        ):
            with pytest.raises(ValueError, match=sentence):
                analyse_script("", module=name, cwd=str(tmp_path), python=python)

    def test_launcher_module_and_module_without_source_are_launched_once(self, tmp_path: Path, bare: str) -> None:
        seen = analyse_script("", module="torch.distributed.run", cwd=str(tmp_path), python=NOWHERE)
        assert (seen.launch, seen.why) == ("one", "torch.distributed.run starts the processes itself.")
        assert analyse_script("", module="zipimport", cwd=str(tmp_path), python=bare).launch == "one"


class TestProblems:
    def test_missing_packages_are_one_problem_with_an_install_command(self, tmp_path: Path, bare: str) -> None:
        (sentence,) = asked(look(tmp_path, "import json\nimport sklearn.linear_model\n"), bare)
        version = ".".join(map(str, sys.version_info[:3]))
        assert sentence == (
            f"train.py needs the package sklearn, which Python {version} at {bare} does not have. "
            f"Install it (uv pip install --python {bare} scikit-learn), or choose another Python."
        )
        seen = look(tmp_path, "import torch, nowhere_one, yaml_nowhere\nfrom nowhere_two import x\n")
        (sentence,) = asked(seen, sys.executable)
        assert "train.py needs the packages nowhere_one, yaml_nowhere and nowhere_two, which Python" in sentence
        assert f"({sys.executable} -m pip install nowhere_one yaml_nowhere nowhere_two)" in sentence

    def test_installed_packages_and_local_modules_are_not_missing(self, tmp_path: Path) -> None:
        python = make_environment(tmp_path / "env")
        install(python, "torch")
        write(tmp_path, "", "core/__init__.py")
        write(tmp_path, "", "data/loading.py")  # a folder without an __init__.py
        write(tmp_path, "raise SystemExit('imported')\n", "json.py")
        assert asked(look(tmp_path, "import core, torch, data.loading, json, __main__\n"), str(python)) == []

    def test_script_that_changes_sys_path_or_installs_is_checked_for_frameworks_only(self, tmp_path, bare) -> None:
        rooted = look(tmp_path, "import rootutils\nrootutils.setup_root(__file__)\nimport mine\n")
        assert rooted.finds_more
        seen = look(tmp_path, "import sys\nsys.path.append('../src')\nimport mine, torch\n")
        (sentence,) = asked(seen, bare)
        assert "needs the package torch," in sentence
        seen = look(
            tmp_path,
            "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'pip', 'install', 'x'])\nimport x\n",
        )
        assert asked(seen, bare) == []

    def test_missing_local_package_is_reported_with_pythonpath_not_install(self, tmp_path: Path, bare: str) -> None:
        write(tmp_path, "", "vision/__init__.py")
        write(tmp_path, "", "src/tools/__init__.py")
        seen = look(tmp_path / "vision" / "training", "import vision.models, tools, jax\n")
        first, second, third = asked(seen, bare, cwd=tmp_path)
        assert first.startswith(
            f"train.py needs the module vision, which is in {tmp_path}, but Python will not search there."
        )
        assert f"Set PYTHONPATH={tmp_path} for it" in first
        assert f"tools, which is in {tmp_path / 'src'}" in second
        assert "needs the package jax," in third
        path = {"PYTHONPATH": f"{tmp_path}:{tmp_path}/src"}
        assert [each for each in asked(seen, bare, cwd=tmp_path, variables=path) if "jax" not in each] == []

    def test_module_in_a_folder_of_all_users_is_not_offered(self, tmp_path: Path) -> None:
        write(tmp_path, "", "imp.py")
        seen = look(tmp_path / "mine", "import imp\n")
        python = of_version(3, 13)
        assert "imp, which is in" in asked(seen, python)[0]
        tmp_path.chmod(0o1777)
        (sentence,) = asked(seen, python)
        assert "needs the module imp of another Python's standard library" in sentence

    def test_syntax_error_is_reported_with_its_line_also_in_local_modules(self, tmp_path: Path, bare: str) -> None:
        write(tmp_path, "def f(:\n", "tools/model.py")
        write(tmp_path, "def g(:\n", "unused.py")
        (sentence,) = asked(look(tmp_path, "import tools.model\ndef f():\n    import unused\n"), bare)
        assert sentence.startswith("tools/model.py has a syntax error in line 1: invalid syntax (Python ")
        (sentence,) = asked(look(tmp_path, "x = 1\n\nx = = 2\n"), bare)
        assert sentence.startswith("train.py has a syntax error in line 3: invalid syntax (Python ")

    def test_syntax_is_checked_by_the_chosen_python_version(self, tmp_path: Path) -> None:
        old, new = of_version(3, 8), of_version(3, 13)
        seen = look(tmp_path, "match 1:\n    case 1:\n        import tomllib, imp\n")
        assert asked(seen, new) == []
        (sentence,) = asked(seen, old)
        assert "train.py has a syntax error in line 1: invalid syntax (Python 3.8" in sentence
        seen = look(tmp_path, "type Number = int | float\nimport torch\n")  # newer than Python 3.11
        if sys.version_info < (3, 12):
            assert "It could not be analysed: Python 3.1" in seen.why
        assert not any("syntax" in each for each in asked(seen, new))

    def test_standard_library_module_of_another_python_version_is_reported(self, tmp_path: Path) -> None:
        for name, minor in (("tomllib", 8), ("imp", 13)):
            (sentence,) = asked(look(tmp_path, f"import {name}\n"), of_version(3, minor))
            assert f"needs the module {name} of another Python's standard library, which Python 3.{minor}" in sentence

    @pytest.mark.parametrize("version", present([(2, 7), (3, 6), (3, 7)], has_version, "Python from pyenv"))
    def test_python_that_is_too_old_is_reported(self, tmp_path: Path, version: tuple[int, int]) -> None:
        (sentence,) = asked(look(tmp_path, "import nowhere\n"), of_version(*version))
        assert "scripts need Python 3.8 or later" in sentence

    def test_missing_working_folder_and_invalid_interpreter_are_reported(self, tmp_path: Path, bare: str) -> None:
        seen = look(tmp_path, "import nowhere\n")
        gone, missing = asked(seen, bare, cwd=tmp_path / "gone")
        assert gone == f"The working folder {tmp_path / 'gone'} does not exist. Choose another."
        assert "nowhere" in missing
        (no_folder, _) = asked(seen, bare, cwd=tmp_path / "train.py")
        assert "is not a folder" in no_folder
        rubbish = write_program(tmp_path / "rubbish", "#!/bin/sh\necho hello\n")
        assert "rubbish is not a Python interpreter" in asked(seen, str(rubbish))[0]
        assert "There is no Python at" in asked(seen, NOWHERE)[0]
        assert "is a folder, not a Python" in asked(seen, str(tmp_path))[0]


class TestRemembering:
    def test_problems_are_cached_until_packages_or_script_change(self, tmp_path: Path) -> None:
        python, starts, cache = make_environment(tmp_path / "env"), tmp_path / "starts", ProblemCache()
        count_starts(python, starts)
        folder = tmp_path / "project"

        def ask(seen: ScriptAnalysis) -> list[str]:
            return problems(seen, python=str(python), cwd=str(folder), timeout_s=PATIENCE_S, cache=cache)

        seen = look(folder, "import jax\n")
        assert len(ask(seen)) == len(ask(seen)) == 1
        assert starts.read_text().count("started") == 1
        install(python, "jax")
        assert ask(seen) == []
        assert "syntax error" in ask(look(folder, "import jax\nx = = 1\n"))[0]
        assert starts.read_text().count("started") == 3

    def test_timeout_of_a_hanging_python_is_cached(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        starts = tmp_path / "starts"
        python = write_program(tmp_path / "python", f"#!/bin/sh\necho started >> {starts}\nsleep 1000\n")
        # Its time is over once it has started: from then on, a second passes from one look at the clock to the next.
        looks = itertools.count(1)
        clock = SimpleNamespace(
            monotonic=lambda: next(looks) if starts.exists() and starts.read_text() else 0, sleep=time.sleep
        )
        monkeypatch.setattr("core.pythons.python_info.time", clock)
        monkeypatch.setattr("core.scripts.problems.FAILED_S", PATIENCE_S)
        seen, cache = look(tmp_path, "import torch\n"), ProblemCache()
        for _ in range(2):
            (sentence,) = problems(seen, python=str(python), cwd=str(tmp_path), timeout_s=0.5, cache=cache)
            assert "did not report its version within 0.5 s" in sentence
        assert starts.read_text() == "started\n"

    def test_closing_a_python_probe_terminates_its_process(self, tmp_path: Path) -> None:
        python = write_program(tmp_path / "python", f"#!/bin/sh\necho $$ > {tmp_path}/pid\nsleep 1000\n")
        probe = PythonProbe(str(python), timeout_s=PATIENCE_S)
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
        assert probe.poll() is None
        probe.close()
        probe.close()
        pid = int((tmp_path / "pid").read_text())
        wait_until(lambda: not psutil.pid_exists(pid), "the process to end")
