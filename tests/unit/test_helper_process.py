"""Helper processes: their environment, input and output, and how they end."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.catalog.installed import has
from core.launchers import export_model
from core.pythons.python_info import PythonProbe
from core.system import helper_process
from core.system.helper_process import HelperProcess, around, ends_within
from core.system.processes import RUN_DIR, TAG
from tests.support.pythons import write_program
from tests.support.running import make_spec
from tests.support.waiting import PATIENCE_S, wait_until


@pytest.fixture(autouse=True)
def _long_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the end of a process however long a busy machine takes for it."""
    monkeypatch.setattr(helper_process, "GRACE_S", PATIENCE_S)


def export(python: str) -> None:
    export_model._run(replace(make_spec("digits_mlp"), python=python), "{}")


def probe(python: str) -> None:
    with pytest.raises(ValueError, match="is not a Python interpreter"):
        PythonProbe(python, timeout_s=PATIENCE_S).wait()


@pytest.mark.parametrize("start", [lambda python: has(python, "torch"), export, probe], ids=["has", "export", "probe"])
def test_other_python_does_not_inherit_trainyard_variables(start, tmp_path, monkeypatch) -> None:
    for name in (TAG, RUN_DIR, "TRAINYARD_METRICS", "TRAINYARD_PYTHON_TENSORFLOW"):
        monkeypatch.setenv(name, "ours")
    monkeypatch.setenv("SOME_OTHER", "kept")
    seen = tmp_path / "seen"
    start(str(write_program(tmp_path / "bin" / "python", f"#!/bin/sh\nenv > {seen}\n")))
    names = {line.partition("=")[0] for line in seen.read_text(encoding="utf-8").splitlines()}
    assert "SOME_OTHER" in names
    assert not {name for name in names if name.startswith("TRAINYARD_")}


def sh(script: str, **options: object) -> HelperProcess:
    return HelperProcess(["sh", "-c", script], **options)  # type: ignore[arg-type]


def test_lines_longer_than_a_pipe_buffer_can_be_sent() -> None:
    with HelperProcess([sys.executable, "-c", "for line in open(0): print(len(line), flush=True)"], stdin=True) as echo:
        assert echo.send(b"x" * 300_000 + b"\nab\n", wait=True)
        lines: list[bytes] = []
        while len(lines) < 2:
            lines += echo.read_lines(wait=True)
        assert lines == [b"300001", b"3"]
        echo.kill()
        assert echo.read_lines(wait=True) == []
        assert echo.wait(PATIENCE_S) == -signal.SIGKILL
        assert not echo.send(b"more\n", wait=True)


@pytest.mark.parametrize(
    ("script", "words"), [("exit 0", ""), ("exit 3", "exit status 3"), ("kill -SEGV $$", "signal SEGV")]
)
def test_exit_status_is_known_before_and_after_close(script: str, words: str) -> None:
    with sh(f"echo out; echo err >&2; {script}", stderr=-1) as process:
        process.wait(PATIENCE_S)
        assert (process.output, process.errors, process.ending()) == (b"out\n", b"err\n", words)
    assert process.ending() == words


def test_wait_has_a_timeout_output_a_size_limit_and_the_pipe_an_end() -> None:
    with sh("sleep 60", stdin=True) as process:
        assert process.ending() is None
        with pytest.raises(TimeoutError):
            process.wait(0.1)
        wait_until(lambda: not process.send(b"x" * 1000), "the pipe to be full")
    assert process.ending() == "signal KILL"
    with sh("while :; do echo endless; done", max_bytes=10_000) as process, pytest.raises(ValueError, match="10000"):
        process.wait(PATIENCE_S)


def test_close_terminates_children_even_after_the_process_exited() -> None:
    with sh("sleep 60 & echo $!") as process:
        child = int(wait_until(process.read_lines, "the child")[0])
        wait_until(lambda: process.ending() == "", "the end")
        assert Path(f"/proc/{child}").exists()
    wait_until(lambda: not Path(f"/proc/{child}").exists(), "the end of the child")


@pytest.mark.parametrize(("state", "is_reaped"), [("R", True), ("D", False)])
def test_a_killed_process_is_waited_for_unless_the_kernel_holds_it(state, is_reaped, monkeypatch) -> None:
    """On a busy machine, a killed process may wait for its turn longer than one grace period."""
    process = sh("sleep 60")
    monkeypatch.setattr(helper_process, "GRACE_S", 0.0)
    killed: list[int] = []
    monkeypatch.setattr(process, "kill", lambda: killed.append(process.pid))

    def stat(pid: int) -> SimpleNamespace:
        if state == "R":  # it is its turn now
            os.killpg(pid, signal.SIGKILL)
            ends_within(pid, PATIENCE_S)
        return SimpleNamespace(state=state)

    monkeypatch.setattr(helper_process.procfs, "stat", stat)
    process.close()
    assert killed == [process.pid]
    assert (process.ending() is not None) is is_reaped
    monkeypatch.undo()
    process.close()


@pytest.mark.parametrize(("script", "words"), [("read line", "exit status 1"), ("sleep 60", "signal TERM")])
def test_polite_close_signals_only_a_process_that_outlives_its_stdin(script, words, monkeypatch) -> None:
    if words == "signal TERM":
        monkeypatch.setattr(helper_process, "ends_within", lambda pid, _: ends_within(pid, 0.1))
    process = sh(f"{script}", stdin=True)
    process.close(polite=True)
    assert process.ending() == words
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, signal.SIG_DFL)
    process.close(polite=True)


def test_surroundings_are_those_of_the_chosen_python_and_not_of_the_active_environment(tmp_path: Path) -> None:
    venv, conda, bare = tmp_path / "venv", tmp_path / "torch", tmp_path / "usr"
    venv.mkdir()
    (venv / "pyvenv.cfg").touch()
    (conda / "conda-meta").mkdir(parents=True)
    active = {"PATH": f"/active/bin:{bare}/bin:/bin", "VIRTUAL_ENV": "/active", "CONDA_PREFIX": "/c", "HOME": "/h"}
    of_conda = {"CONDA_PREFIX": str(conda), "CONDA_DEFAULT_ENV": "torch"}
    for folder, more in ((venv, {"VIRTUAL_ENV": str(venv)}), (conda, of_conda), (bare, {})):
        others = [each for each in active["PATH"].split(":") if each != f"{folder}/bin"]
        expected = {"PATH": ":".join([f"{folder}/bin", *others]), "HOME": "/h", **more}
        assert around(f"{folder}/bin/python", active) == expected
    named = {"CONDA_PREFIX": str(conda), "CONDA_DEFAULT_ENV": "mine"}
    assert around(f"{conda}/bin/python", named)["CONDA_DEFAULT_ENV"] == "mine"
    (venv / "bin").mkdir()
    (conda / "bin").mkdir()
    write_program(conda / "bin" / "python3", "")
    (venv / "bin" / "python3").symlink_to(conda / "bin" / "python3")
    of_both = around(f"{venv}/bin/python3", named)  # it loads the libraries of conda
    assert {"VIRTUAL_ENV": str(venv), **named}.items() <= of_both.items()
    bare_python = bare / "bin" / "python3"
    bare_python.parent.mkdir(parents=True)
    write_program(bare_python, "")
    assert around(str(bare_python), active)["PATH"] == active["PATH"], "programs before it stay before it"
