"""Runs and presets of another user in a shared folder, and what other users can reach of one's own."""

from __future__ import annotations

import json
import os
import pwd
from typing import TYPE_CHECKING

import pytest

from core.cli.__main__ import main
from core.runs.index import RunIndex
from core.runs.run import Run
from tests.support.recorded import recorded

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = pwd.getpwuid(65534)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="files of another user can only be made by root")


def give_away(path: Path) -> None:
    """Make everything below a folder belong to another user."""
    for each in (path, *path.rglob("*")):
        os.chown(each, NOBODY.pw_uid, NOBODY.pw_gid)


@as_root
def test_a_run_of_another_user_is_marked_with_its_owner(runs_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = recorded(runs_root)
    assert Run.attach(run_dir).owner is None
    assert main(["runs", "--runs", str(runs_root)]) == 0
    assert "OWNER" not in capsys.readouterr().out

    give_away(run_dir)
    assert Run.attach(run_dir).owner == NOBODY.pw_name
    assert [each.owner for each in RunIndex(runs_root).poll()] == [NOBODY.pw_name]
    assert main(["runs", "--runs", str(runs_root)]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["RUN", "STATE", "STEP", "LOSS", "OWNER"]
    assert main(["show", run_dir.name, "--runs", str(runs_root)]) == 0
    assert f"It belongs to {NOBODY.pw_name}." in capsys.readouterr().out
    assert main(["show", run_dir.name, "--json", "--runs", str(runs_root)]) == 0
    assert json.loads(capsys.readouterr().out)["owner"] == NOBODY.pw_name


@as_root
def test_a_link_that_another_user_made_counts_as_that_users_run(runs_root: Path, tmp_path: Path) -> None:
    run_dir = recorded(tmp_path / "own")
    runs_root.mkdir()
    link = runs_root / "link"
    link.symlink_to(run_dir)
    os.lchown(link, NOBODY.pw_uid, NOBODY.pw_gid)
    assert Run.attach(link).owner == NOBODY.pw_name
