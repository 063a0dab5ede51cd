"""Runs and presets of another user in a shared folder: marked with their owner, and executed only after a question."""

import json
import os
from pathlib import Path

import pytest

from core.history.index import RunIndex
from core.runs.run import Run
from core.schema.spec import read_spec
from tests.support.commands import Call
from tests.support.recorded import recorded
from tests.support.two_users import OTHER_UID, give_away, other_name

OTHER_NAME = other_name()


@pytest.mark.two_users
def test_a_run_of_another_user_is_marked_with_its_owner(runs_root: Path, call: Call) -> None:
    run_dir = recorded(runs_root)
    assert Run.attach(run_dir).owner is None
    code, out, _ = call("runs")
    assert (code, "OWNER" in out) == (0, False)

    give_away(run_dir)
    assert Run.attach(run_dir).owner == OTHER_NAME
    assert [each.owner for each in RunIndex(runs_root).poll()] == [OTHER_NAME]
    assert call("runs")[1].splitlines()[0].split() == ["RUN", "STATE", "STEP", "LOSS", "DIFFERENCE", "OWNER"]
    assert f"It belongs to {OTHER_NAME}." in call("show", run_dir.name)[1]
    assert json.loads(call("show", run_dir.name, "--json")[1])["owner"] == OTHER_NAME


@pytest.mark.two_users
def test_a_link_that_another_user_made_counts_as_that_users_run(runs_root: Path, tmp_path: Path) -> None:
    run_dir = recorded(tmp_path / "own")
    runs_root.mkdir()
    link = runs_root / "link"
    link.symlink_to(run_dir)
    os.lchown(link, OTHER_UID, OTHER_UID)
    assert Run.attach(link).owner == OTHER_NAME


COMMANDS = [
    ("again", "RUN", "--detach"), ("resume", "RUN", "--detach"), ("keep", "RUN", "copy"),
    ("doctor", "RUN", "--first-nan"),
    ("export", "RUN", "--model", "model"), ("run", "--setup", "PRESET", "--devices", "cpu:0", "--detach"),
]


@pytest.mark.two_users
@pytest.mark.parametrize("command", COMMANDS, ids=[command[0] for command in COMMANDS])
def test_what_another_user_named_is_executed_only_after_a_question(
    runs_root: Path, tmp_path: Path, command: tuple[str, ...], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = recorded(runs_root)
    preset = tmp_path / "preset.json"
    preset.write_bytes((run_dir / "spec.json").read_bytes())
    give_away(preset)
    give_away(run_dir)
    names = {"RUN": run_dir.name, "PRESET": preset, "model": tmp_path / "model", "copy": tmp_path / "c.json"}
    words = [names.get(word, word) for word in command]
    before = sorted(path.name for path in tmp_path.rglob("*"))

    code, _, err = call(*words)
    spec = read_spec(run_dir)
    what = f"The preset {preset}" if "PRESET" in command else f"Run {run_dir.name}"
    assert code == 2
    assert err.startswith(
        f"trainyard: {what} belongs to {OTHER_NAME}. This would be executed with your permissions, and "
        f"{OTHER_NAME} may be able to change it at any time:\n\nProgram: {spec.own_recipe.path}\n"
        f"Python: {spec.python}\nFolder: {spec.working_dir}\n\nContinue only if you trust {OTHER_NAME}.\n"
        "Nothing was done: there is no terminal to ask on. Add --yes if you agree."
    )

    asked = []
    monkeypatch.setattr("core.cli.runs.is_interactive", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or "no")
    code, _, err = call(*words)
    assert (code, err) == (2, "trainyard: Nothing was done.\n")
    assert asked[0].endswith("Execute it? [y/N] ")
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


@pytest.mark.two_users
def test_yes_agrees_without_a_question(runs_root: Path, tmp_path: Path, call: Call) -> None:
    run_dir = recorded(runs_root)
    give_away(run_dir)
    assert call("keep", run_dir.name, tmp_path / "kept.json", "--yes")[0] == 0
    assert (tmp_path / "kept.json").exists()


@pytest.mark.two_users
def test_no_name_poses_as_another_line(runs_root: Path, call: Call) -> None:
    run_dir = recorded(runs_root)
    run_dir = run_dir.rename(run_dir.with_name(f"{run_dir.name}\nmine  running  7  0.5"))
    spec = json.loads((run_dir / "spec.json").read_text())
    spec["recipe"]["path"] += "\n  It belongs to you."
    (run_dir / "spec.json").write_text(json.dumps(spec))
    give_away(run_dir)
    for words, count in ((["runs"], 2), (["show", run_dir.name], 5)):
        code, out, _ = call(*words)
        assert (code, len(out.splitlines())) == (0, count)
    code, _, err = call("again", run_dir.name, "--detach")
    assert code == 2
    assert f"?mine  running  7  0.5 belongs to {OTHER_NAME}." in err.splitlines()[0]
