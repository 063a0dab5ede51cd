"""What keeps a run over several machines from starting: a sentence each, before anything trains."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from core.runs.facts.states import RunState
from core.supervisor.hosts import run_hosts
from tests.support.commands import call
from tests.support.running import LONG, make_spec, start, write_recipe
from tests.support.ssh_server import TRAINYARD, add_host

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.ssh_server import SshServer

RUN = ("run", "digits_cnn", "--strategy", "ddp", "--epochs", "1")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--devices", "cpu:0,nobody/cpu:0"), "There is no host nobody. Add it: trainyard hosts add ADDRESS"),
        (("--devices", "cpu:0,one/cpu:7"), "There is no device 'one/cpu:7' here. Choose from: cpu:0"),
        (("--devices", "one/cpu:0,one/cpu:1"), "needs a device of this one, where its checkpoints are kept"),
        (("--devices", "cpu:0,one/cpu:0", "--queue"), "The queue waits for devices of this machine only."),
        (("--devices", "cpu:0,closed/cpu:0"), "closed (closed) accepts no connections by ssh"),
        (
            ("--devices", "cpu:0,one/cpu:0", "--framework", "tensorflow", "--strategy", "mirrored"),
            "Data parallel (mirrored) runs on one machine, and one · CPU 0 is on another.",
        ),
    ],
)
def test_choice_that_cannot_be_is_refused_before_there_is_a_run(
    server: SshServer, capsys: pytest.CaptureFixture[str], runs_root: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    add_host("one")
    add_host("closed")
    code, out, err = call(capsys, *RUN, *arguments, "--runs", runs_root)
    assert code in {1, 2}
    assert out == ""
    assert sentence in err
    assert not runs_root.exists()


def test_script_over_machines_is_refused(
    server: SshServer, capsys: pytest.CaptureFixture[str], runs_root: Path, tmp_path: Path
) -> None:
    add_host("one")
    (tmp_path / "train.py").write_text("print('loss 1')\n")
    script = ("run", "--script", tmp_path / "train.py", "--launch", "per-device")
    code, _, err = call(capsys, *script, "--devices", "cpu:0,one/cpu:0", "--runs", runs_root)
    assert code == 2
    assert "One process per device runs on one machine, and one · CPU 0 is on another." in err


def failed_start(runs_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> str:
    """Start a run over two machines whose start fails, and return why."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    spec = make_spec(write_recipe(tmp_path, LONG))
    run = start(replace(spec, devices=("cpu:0", "one/cpu:0"), strategy="ddp"), runs_root).until_over()
    assert run.states[-1] is RunState.FAILED
    assert run.run.facts.workers == {}
    return str(run.run.facts.error)


def test_machines_that_cannot_connect_to_each_other_are_named(
    server: SshServer, runs_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_host("one")
    error = failed_start(runs_root, tmp_path, monkeypatch, **{run_hosts.ADDRESS_VARIABLE: "192.0.2.1"})
    assert "192.0.2.1 cannot be used here" in error
    assert "Open the firewall of this machine for them" in error


def test_host_that_was_removed_from_the_list_is_named(
    server: SshServer, runs_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "There is no host one. Add it" in failed_start(runs_root, tmp_path, monkeypatch)


def test_host_whose_framework_is_missing_or_another_is_named(
    server: SshServer, runs_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script
) -> None:
    """The Python of the host has no PyTorch; then it has another version."""
    empty = script('case "$*" in *find_spec*) exit 1;; esac; exit 3')
    add_host("one", f"env TRAINYARD_PYTHON_PYTORCH={empty} {TRAINYARD}")
    error = failed_start(runs_root, tmp_path, monkeypatch)
    assert error.startswith("one says: PyTorch is not installed in")


def test_data_that_a_host_does_not_have_are_named_before_anything_trains(
    server: SshServer, runs_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The home of the host is another one, so what is in the home here is missing there."""
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    add_host("one")
    recipe = write_recipe(tmp_path, LONG.replace("items=64", "items=64, folder=''"))
    spec = make_spec(recipe, settings={"folder": "~/data"})
    error = start(replace(spec, devices=("cpu:0", "one/cpu:0"), strategy="ddp"), runs_root).until_over().run.facts.error
    assert str(error).startswith("~/data does not exist on one, and this run names it in its settings. Data do not")


def test_host_with_another_version_is_named(
    server: SshServer, runs_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script
) -> None:
    other = script('case "$*" in *find_spec*) exit 0;; esac; echo 1.2.3')
    add_host("one", f"env TRAINYARD_PYTHON_PYTORCH={other} {TRAINYARD}")
    error = failed_start(runs_root, tmp_path, monkeypatch)
    assert "one has torch 1.2.3, and this machine has" in error
    assert "Ranks of one run need the same version." in error
