"""The search for Pythons in the background, and the command that lists them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from core.cli.commands import machine
from core.pythons.discovery import PythonSearch
from core.pythons.python_info import ProbeCache
from core.system import processes
from tests.support.commands import call
from tests.support.pythons import VERSION, count_starts, install, make_environment, write_program
from tests.support.waiting import PATIENCE_S, wait_until


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
