"""Search for Python interpreters: real environments, fake folder trees, and files that are not Python.

In the background, too, and by the command that lists them.
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from core.cli.commands import machine
from core.pythons.discovery import PythonSearch, find_pythons, locate_python
from core.pythons.python_info import MIN_FOR_RECIPES, Package, ProbeCache
from core.system import processes
from tests.support.commands import call
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
from tests.support.waiting import PATIENCE_S, wait_until

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


def plant(folder: Path, entry: str) -> None:
    """Make a program `name`, a link `name -> target`, a folder `name/` or a file `name = text` below a folder."""
    name, word, given = re.fullmatch(r"(\S+)(?: (->|=) (.*))?", entry, re.DOTALL).groups()
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if word == "->":
        path.symlink_to(given)
    elif name.endswith("/"):
        path.mkdir()
    else:
        write_program(path, given or entry)


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

    @pytest.mark.parametrize(
        ("planted", "variables", "found"),
        [
            pytest.param(
                ["bin/python3.12", "bin/python3 -> python3.12", "bin/python -> python3.12",
                 "usr/python3.12 -> ../bin/python3.12", "bin/python3.11"],
                {"PATH": "{0}/bin:{0}/usr"}, {"bin/python3": "path", "bin/python3.11": "path"}, id="several names",
            ),
            pytest.param(
                ["else/vision/conda-meta/", "else/vision/bin/python", "miniforge3/conda-meta/", "miniforge3/bin/python",
                 "miniforge3/envs/audio/conda-meta/", "miniforge3/envs/audio/bin/python",
                 "miniforge3/envs/no-python/conda-meta/", ".conda/environments.txt = {0}/else/vision\n{0}/gone\n\n"],
                {"HOME": "{0}"},
                {"else/vision/bin/python": "conda", "miniforge3/bin/python": "conda",
                 "miniforge3/envs/audio/bin/python": "conda"}, id="conda by its list and below a root",
            ),
            pytest.param(
                ["c/envs/one/conda-meta/", "c/envs/one/bin/python", "p/versions/3.12.1/bin/python", "p/shims/python3",
                 "u/cpython-3.12.4-linux/bin/python3", "u/cpython-3.12-linux -> cpython-3.12.4-linux"],  # as uv has it
                {"CONDA_EXE": "{0}/c/bin/conda", "PYENV_ROOT": "{0}/p", "UV_PYTHON_INSTALL_DIR": "{0}/u",
                 "PATH": "{0}/p/shims"},
                {"c/envs/one/bin/python": "conda", "p/versions/3.12.1/bin/python": "pyenv",
                 "u/cpython-3.12-linux/bin/python3": "uv"}, id="conda, pyenv and uv by variables",
            ),
            pytest.param(  # as in a service, where only the shims on PATH point to pyenv
                ["pyenv/versions/3.12.1/bin/python", "pyenv/shims/python3", "pyenv/plugins/virtualenv/shims/python3"],
                {"PATH": "{0}/pyenv/plugins/virtualenv/shims:{0}/pyenv/shims/"},
                {"pyenv/versions/3.12.1/bin/python": "pyenv"}, id="pyenv by its shims alone",
            ),
            pytest.param(
                ["named/versions/3.12.1/bin/python", ".pyenv/versions/3.12.1/bin/python"],
                {"HOME": "{0}", "PYENV_ROOT": "{0}/named", "PATH": "{0}/.pyenv/shims:{0}/named/shims"},
                {"named/versions/3.12.1/bin/python": "pyenv", ".pyenv/versions/3.12.1/bin/python": "pyenv"},
                id="two of pyenv",
            ),
            pytest.param(
                ["installs/python/3.12.1/bin/python"], {"PATH": "{0}/shims"},
                {"installs/python/3.12.1/bin/python": "managed"}, id="asdf by its shims",
            ),
            pytest.param(  # a shim starts a different Python depending on the working folder
                ["shims/python3", "bin/python3 -> ../shims/python3", "short -> shims", "bin/python3.12"],
                {"PATH": "{0}/shims:{0}/bin:{0}/short"}, {"bin/python3.12": "path"}, id="no shim under any name",
            ),
        ],
    )
    def test_pythons_of_each_tool_are_found_once(self, tmp_path: Path, planted, variables, found) -> None:
        for entry in planted:
            plant(tmp_path, entry.format(tmp_path))
        given = {"HOME": "/nowhere", "PATH": "", **{name: each.format(tmp_path) for name, each in variables.items()}}
        listed = [each for each in find_pythons(variables=given) if each.path.startswith(str(tmp_path))]
        places = [(os.path.relpath(each.path, tmp_path), each.place) for each in listed]
        assert places == list(found.items())

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
    def test_python_is_probed_again_only_when_it_or_its_packages_have_changed(self, tmp_path: Path) -> None:
        python = make_environment(tmp_path / "env")
        starts, file = tmp_path / "starts", tmp_path / "cache" / "pythons.json"
        count_starts(python, starts)
        remembered = ProbeCache(file)
        assert ask(str(python), remembered=remembered).keras is None
        remembered.save()
        remembered = ProbeCache(file)
        assert ask(str(python), remembered=remembered).prefix == str(tmp_path / "env")
        assert starts.read_text() == "started\n"
        install(python, "keras", "3.9.0")
        assert ask(str(python), remembered=remembered).keras == Package(version="3.9.0", cuda=None)
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


def all_of(search: PythonSearch) -> dict[str, tuple[str, bool]]:
    """Map each path to its problem and to whether its facts are known."""
    wait_until(lambda: (search.poll(), search.done)[1], "all Pythons to have answered")
    return {each.found.path: (each.problem, each.info is not None) for each in search.poll()}


@pytest.fixture
def search(tmp_path: Path) -> Iterator[PythonSearch]:
    """A search in a home of its own, without a PATH."""
    made = PythonSearch(ProbeCache(), timeout_s=PATIENCE_S, variables={"HOME": str(tmp_path), "PATH": ""})
    yield made
    made.close()


class TestSearching:
    def test_search_reports_facts_or_a_problem_for_each_python(self, search, tmp_path: Path) -> None:
        good = make_environment(tmp_path / ".venv")
        bad = write_program(tmp_path / "venv" / "bin" / "python", "#!/bin/sh\nexit 1\n")
        gone = tmp_path / "env" / "bin" / "python"
        gone.parent.mkdir(parents=True)
        gone.symlink_to("/opt/gone")
        for each in (bad, gone):
            (each.parent.parent / "pyvenv.cfg").touch()
        search.start(tmp_path)
        search.add(str(tmp_path / "nothing"))
        known = all_of(search)
        assert known[str(good)] == ("", True)
        assert "exit status 1" in known[str(bad)][0]
        assert "which is gone" in known[str(gone)][0]
        assert "There is no Python at" in known[str(tmp_path / "nothing")][0]

    def test_search_near_another_folder_probes_only_new_pythons(self, search, tmp_path: Path) -> None:
        python, starts = make_environment(tmp_path / "a" / ".venv"), tmp_path / "starts"
        count_starts(python, starts)
        for near in (tmp_path / "a", tmp_path, tmp_path / "a"):
            search.start(near)
            shown = all_of(search)
            assert (str(python) in shown) is (near == tmp_path / "a")
        assert starts.read_text() == "started\n"

    def test_close_terminates_a_hanging_probe_and_its_children(self, search, tmp_path: Path) -> None:
        hanging = write_program(
            tmp_path / ".venv" / "bin" / "python", f"#!/bin/sh\nsleep 1000 &\necho $! > {tmp_path}/pid\nwait\n"
        )
        (tmp_path / ".venv" / "pyvenv.cfg").touch()
        search.start(tmp_path)
        wait_until(lambda: search.poll() and (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
        assert next(each for each in search.poll() if each.found.path == str(hanging)).info is None
        child = int((tmp_path / "pid").read_text())
        search.close()
        wait_until(lambda: processes.identify(child) is None, "the child to end")
        assert search.done

    def test_search_can_be_closed_early_and_twice(self) -> None:
        search = PythonSearch(ProbeCache())
        search.close()
        search.start()
        search.close()
        search.close()
        assert search.done
        assert search.poll() == []


class TestCommand:
    @pytest.fixture(autouse=True)
    def _patient(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Search in the folder of the test and in /bin, as long as it takes."""
        monkeypatch.setattr(machine, "PythonSearch", partial(PythonSearch, timeout_s=PATIENCE_S))
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("PATH", "/bin")

    def test_json_lists_facts_of_each_python(self, tmp_path: Path, capsys) -> None:
        python = make_environment(tmp_path / "project" / ".venv")
        install(python, "torch", "2.6.0", version_py="cuda = None\n")
        code, out, _ = call(capsys, "pythons", "--near", tmp_path / "project", "--json")
        assert code == 0
        assert next(each for each in json.loads(out) if each["path"] == str(python)) == {
            "path": str(python), "place": "near", "version": VERSION, "implementation": "cpython",
            "prefix": str(tmp_path / "project" / ".venv"), "torch": {"version": "2.6.0", "cuda": False},
            "tensorflow": None, "keras": None, "problem": None,
        }

    def test_table_lists_pythons_then_unusable_ones(self, tmp_path: Path, capsys) -> None:
        python = write_program(tmp_path / ".venv" / "bin" / "python", "#!/bin/sh\nexit 1\n")
        (tmp_path / ".venv" / "pyvenv.cfg").touch()
        code, out, _ = call(capsys, "pythons", "--near", tmp_path)
        assert code == 0
        lines = out.splitlines()
        assert lines[0].split() == ["PYTHON", "TORCH", "TENSORFLOW", "KERAS", "PLACE", "PATH"]
        assert any(line.endswith(str(python)) and line.startswith("-") for line in lines)
        assert any(line.startswith(f"{python} cannot be used") for line in lines)

    def test_missing_folder_is_wrong_use(self, capsys) -> None:
        code, _, err = call(capsys, "pythons", "--near", "/nowhere/at/all")
        assert (code, "There is no file or folder /nowhere/at/all." in err) == (2, True)
