"""Search for Python interpreters: real environments, fake folder trees, and files that are not Python."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from core.pythons.discovery import Found, find_pythons, locate_python
from core.pythons.python_info import MIN_FOR_RECIPES, Package, ProbeCache
from tests.support.present import present
from tests.support.pythons import (
    VERSION,
    ask,
    copy_of_python,
    count_starts,
    has_version,
    install,
    make_environment,
    of_version,
    packages_of,
    write_program,
)
from tests.support.waiting import PATIENCE_S

RUNS_SCRIPTS = [(3, 8), (3, 9), (3, 10), (3, 12), (3, 13)]
TORCH_VERSION = """
from typing import Optional
__version__ = '2.6.0+cu124'
cuda: Optional[str] = '12.4'
hip: Optional[str] = None
"""
TENSORFLOW_BUILD = """
import collections
build_info = collections.OrderedDict([('cpu_compiler', 'clang'), ('is_cuda_build', False)])
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment without packages; tests must not modify it."""
    return make_environment(tmp_path_factory.mktemp("bare") / ".venv")


def found_paths(near: Path | None, **variables: str) -> list[str]:
    """Return the paths found without the Pythons installed on this machine."""
    return [each.path for each in find_pythons(near, variables={"HOME": "/nowhere", "PATH": "", **variables})]


def found_below(folder: Path, **variables: str) -> list[Found]:
    """Return what is found below a folder."""
    return [each for each in find_pythons(variables=variables) if each.path.startswith(str(folder))]


class TestFinding:
    def test_environments_next_to_the_script_and_above_it_are_found(self, tmp_path: Path) -> None:
        project = tmp_path / "project"
        inside, named, above = project / ".venv", project / "src" / "gpu-tools", tmp_path / "env"
        for folder in (inside, named, above):
            copy_of_python(folder / "bin" / "python")
            (folder / "pyvenv.cfg").touch()
        copy_of_python(project / "no-environment" / "bin" / "python")
        script = write_program(project / "src" / "train.py", "")
        (project / "loop").symlink_to("loop")
        found = found_paths(script)
        places = [found.index(str(folder / "bin" / "python")) for folder in (named, inside, above)]
        assert places == sorted(places)  # the nearest first
        assert str(project / "no-environment" / "bin" / "python") not in found

    def test_environment_is_listed_separately_from_its_base(self, bare: Path) -> None:
        found = found_paths(bare.parent.parent.parent, PATH=f"{bare.parent}:{Path(os.path.realpath(bare)).parent}")
        assert str(bare) in found
        assert [each for each in found if Path(each).parent == bare.parent] == [str(bare)]
        assert [each for each in found if os.path.realpath(each) == os.path.realpath(bare) and each != str(bare)]

    def test_interpreter_with_several_names_is_listed_once(self, tmp_path: Path) -> None:
        real = write_program(tmp_path / "bin" / "python3.12", "ELF")
        for name in ("python3", "python"):
            (tmp_path / "bin" / name).symlink_to("python3.12")
        (tmp_path / "usr").mkdir()
        (tmp_path / "usr" / "python3.12").symlink_to(real)
        write_program(tmp_path / "bin" / "python3.11", "ELF, another")
        found = found_below(tmp_path, HOME="/nowhere", PATH=f"{tmp_path}/bin:{tmp_path}/usr")
        assert [each.path for each in found] == [f"{tmp_path}/bin/python3", f"{tmp_path}/bin/python3.11"]

    def test_conda_environments_are_found_by_list_and_below_a_root(self, tmp_path: Path) -> None:
        listed, root = tmp_path / "elsewhere" / "vision", tmp_path / "miniforge3"
        environments = [listed, root, root / "envs" / "audio"]
        for folder in [*environments, root / "envs" / "no-python"]:
            (folder / "conda-meta").mkdir(parents=True)
        for folder in environments:
            write_program(folder / "bin" / "python", str(folder))
        (tmp_path / ".conda").mkdir()
        (tmp_path / ".conda" / "environments.txt").write_text(f"{listed}\n{tmp_path}/gone\n\n", encoding="utf-8")
        assert [(each.path, each.place) for each in found_below(tmp_path, HOME=str(tmp_path))] == [
            (str(folder / "bin" / "python"), "conda") for folder in environments
        ]

    def test_conda_pyenv_and_uv_are_found_by_environment_variables(self, tmp_path: Path) -> None:
        conda, pyenv, uv = tmp_path / "c", tmp_path / "p", tmp_path / "u"
        (conda / "envs" / "one" / "conda-meta").mkdir(parents=True)
        made = {
            "conda": conda / "envs" / "one" / "bin" / "python",
            "pyenv": pyenv / "versions" / "3.12.1" / "bin" / "python",
            "uv": uv / "cpython-3.12.4-linux" / "bin" / "python3",
        }
        for path in made.values():
            write_program(path, str(path))
        (uv / "cpython-3.12-linux").symlink_to("cpython-3.12.4-linux")  # as uv keeps the newest of a minor version
        write_program(pyenv / "shims" / "python3", "#!/bin/sh\n")
        found = found_below(
            tmp_path, CONDA_EXE=f"{conda}/bin/conda", PYENV_ROOT=str(pyenv), UV_PYTHON_INSTALL_DIR=str(uv),
            PATH=f"{pyenv}/shims", HOME="/nowhere",
        )
        assert [each.place for each in found] == ["conda", "pyenv", "uv"]
        assert {os.path.realpath(each.path) for each in found} == set(map(str, made.values()))

    def test_pyenv_versions_are_found_from_its_shims_alone(self, tmp_path: Path) -> None:
        """As in a service or an empty environment, where only the shims on PATH point to pyenv."""
        root = tmp_path / "tools" / "pyenv"
        python = write_program(root / "versions" / "3.12.1" / "bin" / "python", "ELF")
        write_program(root / "shims" / "python3", "#!/bin/sh\n")
        plugin = write_program(root / "plugins" / "virtualenv" / "shims" / "python3", "#!/bin/sh\n")
        found = find_pythons(variables={"HOME": "/nowhere", "PATH": f"{plugin.parent}:{root}/shims/"})
        assert [(each.path, each.place) for each in found if each.place != "own"] == [(str(python), "pyenv")]

    def test_pyenv_in_home_is_found_in_addition_to_pyenv_root(self, tmp_path: Path) -> None:
        named, usual = tmp_path / "named", tmp_path / "home" / ".pyenv"
        made = [write_program(root / "versions" / "3.12.1" / "bin" / "python", str(root)) for root in (named, usual)]
        variables = {"HOME": str(tmp_path / "home"), "PYENV_ROOT": str(named), "PATH": f"{usual}/shims:{named}/shims"}
        found = [each.path for each in find_pythons(variables=variables) if each.place == "pyenv"]
        assert found == list(map(str, made))

    def test_asdf_versions_are_found_from_its_shims(self, tmp_path: Path) -> None:
        python = write_program(tmp_path / "installs" / "python" / "3.12.1" / "bin" / "python", "ELF")
        found = find_pythons(variables={"HOME": "/nowhere", "PATH": f"{tmp_path}/shims"})
        assert [each.path for each in found if each.place == "managed"] == [str(python)]

    def test_shim_is_not_listed_under_any_name(self, tmp_path: Path) -> None:
        """A shim starts a different Python depending on the working directory."""
        shim = write_program(tmp_path / "shims" / "python3", "#!/bin/sh\n")
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "python3").symlink_to(shim)
        (tmp_path / "short").symlink_to(shim.parent)
        real = write_program(tmp_path / "bin" / "python3.12", "ELF")
        found = found_below(tmp_path, HOME="/nowhere", PATH=f"{tmp_path}/shims:{tmp_path}/bin:{tmp_path}/short")
        assert [each.path for each in found] == [str(real)]

    def test_own_interpreter_comes_first(self) -> None:
        first = next(find_pythons(variables={"PATH": ""}))
        assert (first.path, first.place) == (sys.executable, "own")


def test_python_is_located_by_its_folder_or_on_path(bare: Path) -> None:
    assert locate_python(str(bare.parent.parent)) == locate_python("python", {"PATH": str(bare.parent)}) == str(bare)
    with pytest.raises(ValueError, match=r"no Python called 'python3\.99' on PATH"):
        locate_python("python3.99", {"PATH": "/bin"})


class TestProbing:
    def test_empty_environment_reports_its_version_and_no_packages(self, bare: Path) -> None:
        facts = ask(str(bare))
        assert ".".join(map(str, facts.version)) == VERSION
        assert facts.prefix == str(bare.parent.parent)
        assert (facts.torch, facts.tensorflow, facts.keras, facts.pip) == (None, None, None, False)
        assert facts.too_old(MIN_FOR_RECIPES) is None

    def test_framework_versions_and_builds_are_read_without_importing(self, tmp_path: Path) -> None:
        python = make_environment(tmp_path / "env")
        install(python, "torch", "2.6.0", version_py=TORCH_VERSION)
        install(python, "tensorflow", "2.20.0", python__platform__build_info_py=TENSORFLOW_BUILD)
        install(python, "keras", "3.9.0")
        facts = ask(str(python))
        assert facts.torch == Package(version="2.6.0+cu124", cuda=True)
        assert facts.tensorflow == Package(version="2.20.0", cuda=False)
        assert facts.keras == Package(version="3.9.0", cuda=None)

    def test_missing_build_information_is_unknown(self, tmp_path: Path) -> None:
        python = make_environment(tmp_path / "env")
        install(python, "torch", "2.6.0")
        install(python, "tensorflow", python__platform__build_info_py="this is (no Python\n")
        (packages_of(python) / "keras").mkdir()  # a data folder, not the package
        facts = ask(str(python))
        assert facts.torch == Package(version="2.6.0", cuda=None)
        assert facts.tensorflow == Package(version=None, cuda=None)
        assert facts.keras is None

    def test_own_interpreter_reports_its_installed_frameworks(self) -> None:
        from importlib.metadata import version

        facts = ask(sys.executable)
        # A build may name what it is for in one place alone: 2.13.0+cu130 calls its distribution 2.13.0.
        assert facts.torch.version.partition("+")[0] == version("torch").partition("+")[0]
        assert facts.torch.cuda is ("+cpu" not in version("torch"))
        assert facts.keras == Package(version=version("keras"), cuda=None)

    def test_output_printed_at_startup_is_ignored(self, tmp_path: Path) -> None:
        python = make_environment(tmp_path / "env")
        (packages_of(python) / "noisy.pth").write_text("import sys; print('hello'); print('trainyard-answer:{')\n")
        assert ask(str(python)).prefix == str(tmp_path / "env")

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("#!/bin/sh\necho 'I am no sn'\n", "it ended without reporting its version and printed “I am no sn"),
            ("#!/bin/sh\n", "is not a Python interpreter: it ended without reporting its version. "),
            ("#!/bin/sh\necho 'no encodings' >&2; exit 1\n", "it ended with exit status 1 and printed “no encodings”"),
            ("#!/bin/sh\nkill -SEGV $$\n", "it ended with signal SEGV"),
            ("#!/bin/sh\nexec yes\n", "it printed without end instead of its version"),
            ("#!/bin/sh\nsleep 1000\n", "did not report its version within 0.3 s"),
            ("#!/nowhere/python\n", "cannot be started: No such file"),
            ("just a text\n", "cannot be started: Exec format error"),
            ("#!/bin/sh\necho 'trainyard-answer:{\"version\": [3, 11, 4]}'\n", "Python 3.11.4 started and then ended"),
            ("#!/bin/sh\necho 'trainyard-answer:[1]'; echo 'trainyard-answer:{\"version\": \"3\"}'\n", "is not a Py"),
        ],
    )
    def test_program_that_is_not_python_is_reported(self, tmp_path: Path, text: str, sentence: str) -> None:
        program = write_program(tmp_path / "python", text)
        with pytest.raises(ValueError, match=sentence) as caught:
            ask(str(program), timeout_s=0.3 if "sleep" in text else PATIENCE_S)
        assert str(program) in str(caught.value)
        assert "trainyard pythons" in str(caught.value)

    def test_program_that_cannot_be_started_is_reported(self, tmp_path: Path) -> None:
        unfit = write_program(tmp_path / "text", "#!/bin/sh\n", mode=0o644)
        dangling = tmp_path / "dangling"
        dangling.symlink_to("/opt/python3.9/gone")
        for path, sentence in [
            (tmp_path, "is a folder, not a Python"),
            (unfit, "may not be executed"),
            (tmp_path / "no", "There is no Python"),
            (dangling, "is a link to /opt/python3.9/gone, which is gone"),
            (tmp_path / ("x" * 300), "cannot be the path"),
        ]:
            with pytest.raises(ValueError, match=sentence):
                ask(str(path))

    @pytest.mark.parametrize("version", present([(2, 7), (3, 6), (3, 7)], has_version, "Python from pyenv"))
    def test_too_old_python_still_reports_its_version(self, version: tuple[int, int]) -> None:
        facts = ask(of_version(*version))
        assert facts.version[:2] == version
        assert "scripts need Python 3.8 or later" in (facts.too_old() or "")

    @pytest.mark.parametrize("version", present(RUNS_SCRIPTS, has_version, "Python from pyenv"))
    def test_probe_runs_on_other_python_versions(self, version: tuple[int, int]) -> None:
        facts = ask(of_version(*version))
        assert facts.version[:2] == version
        assert facts.prefix
        assert facts.too_old() is None
        assert (facts.too_old(MIN_FOR_RECIPES) is None) is (version >= (3, 10))


class TestProbeCache:
    def test_unchanged_python_is_probed_once(self, tmp_path: Path) -> None:
        python = make_environment(tmp_path / "env")
        starts, file = tmp_path / "starts", tmp_path / "cache" / "pythons.json"
        count_starts(python, starts)
        remembered = ProbeCache(file)
        ask(str(python), remembered=remembered)
        remembered.save()
        assert ask(str(python), remembered=ProbeCache(file)).prefix == str(tmp_path / "env")
        assert starts.read_text() == "started\n"

    def test_newly_installed_package_invalidates_the_cache(self, tmp_path: Path) -> None:
        python, remembered = make_environment(tmp_path / "env"), ProbeCache()
        assert ask(str(python), remembered=remembered).keras is None
        install(python, "keras", "3.9.0")
        assert ask(str(python), remembered=remembered).keras == Package(version="3.9.0", cuda=None)

    def test_replaced_interpreter_is_probed_again(self, tmp_path: Path) -> None:
        python, remembered = make_environment(tmp_path / "env"), ProbeCache()
        ask(str(python), remembered=remembered)
        python.unlink()
        write_program(python, "#!/bin/sh\nexit 3\n")
        with pytest.raises(ValueError, match="exit status 3"):
            ask(str(python), remembered=remembered)

    def test_wrapper_script_is_not_cached(self, tmp_path: Path, bare: Path) -> None:
        other = make_environment(tmp_path / "other")
        shim = write_program(tmp_path / "python", f'#!/bin/sh\nexec "$(cat {tmp_path}/which)" "$@"\n')
        remembered = ProbeCache()
        for python in (bare, other):
            (tmp_path / "which").write_text(str(python), encoding="utf-8")
            assert ask(str(shim), remembered=remembered).prefix == str(python.parent.parent)

    @pytest.mark.parametrize(
        "text",
        ["", "rubbish", "[]", '{"format": 1, "pythons": []}', '{"format": 99, "pythons": {}}', "[" * 100_000,
         '{"format": 1, "pythons": {"KEY": 3}}', '{"format": 1, "pythons": {"KEY": {"answer": {}, "seen": {}}}}',
         '{"format": 1, "pythons": {"KEY": {"answer": {"version": [3]}, "seen": {}}}}'],
    )
    def test_corrupt_cache_is_ignored(self, tmp_path: Path, bare: Path, text: str) -> None:
        file = tmp_path / "pythons.json"
        key = json.dumps(json.dumps([str(bare), os.environ.get("PYTHONPATH", ""), ""]))
        file.write_text(text.replace('"KEY"', key), encoding="utf-8")
        remembered = ProbeCache(file)
        assert ask(str(bare), remembered=remembered).prefix == str(bare.parent.parent)
        remembered.save()
        assert ProbeCache(file).get(str(bare)) is not None

    def test_unwritable_cache_is_ignored(self, tmp_path: Path, bare: Path) -> None:
        (tmp_path / "file").touch()
        remembered = ProbeCache(tmp_path / "file" / "pythons.json")
        ask(str(bare), remembered=remembered)
        remembered.save()
        assert remembered.get(str(bare)) is not None, "this process still knows the answer"


def test_environment_with_a_removed_base_is_reported(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "env")
    for each in python.parent.glob("python*"):
        each.unlink()
    python.symlink_to(tmp_path / "base" / "python3")
    assert str(python) in found_paths(tmp_path)
    with pytest.raises(ValueError, match="Create the environment again"):
        ask(str(python))


def test_probe_does_not_import_from_the_working_directory(tmp_path: Path, monkeypatch, bare: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert ask(str(bare)).prefix == str(bare.parent.parent)
