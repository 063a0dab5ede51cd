"""Deleting scaling tables: alone, with their runs, and when that is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from core.history import removal
from core.history.index import RunIndex
from core.history.removal import Removed
from core.results import scaling_command
from core.results.scaling_record import ScalingRecord
from gui.features.compare.scaling_tables import fold_runs
from tests.support.commands import call
from tests.support.scaling_runs import recorded, trained
from tests.support.written_runs import write_run
from tests.unit.test_scaling import shown


@pytest.fixture
def record(tmp_path: Path) -> ScalingRecord:
    """A table whose first training was made twice, and a run beside it that is none of its own."""
    runs = [trained(tmp_path, name, devices, 1.0) for name, devices in (("failed", 1), ("one", 1), ("two", 2))]
    write_run(tmp_path, "another")
    made = recorded(tmp_path).with_run(1, 1, runs[0]).with_run(1, 1, runs[1]).with_run(2, 1, runs[2])
    return made.saved()


def names(root: Path) -> list[str]:
    return sorted(each.name for each in root.iterdir())


@pytest.mark.parametrize("with_runs", [False, True])
def test_a_table_is_deleted_alone_or_with_all_its_runs_and_no_other(record, capsys, with_runs) -> None:
    words = ("scale", "--runs", record.root, "--delete", "table", *["--with-runs"] * with_runs)
    code, out, err = call(capsys, *words)
    assert (code, out, "there is no terminal to confirm on" in err) == (2, "", True)
    if with_runs:
        document = json.loads(call(capsys, *words, "--yes", "--json")[1])
        assert (document["deleted"], document["runs"]) == ("table", ["failed", "one", "two"])
        assert document["freed_bytes"] > 0
    else:
        assert call(capsys, *words, "--yes") == (0, "Deleted the scaling table table.\n", "")
    assert names(record.root) == (["another"] if with_runs else ["another", "failed", "one", "two"])
    assert "There is no scaling table 'table'" in call(capsys, *words, "--yes")[2]


def test_a_table_that_is_measured_or_has_a_live_run_is_kept(record: ScalingRecord) -> None:
    taken = record.taken()  # by this process
    assert "is being measured, so it was not deleted. Stop the measuring first." in scaling_command.why_not(taken)
    before = names(record.root)
    assert "is being measured" in scaling_command.delete(record.root, "table", with_runs=True).problem
    elsewhere = replace(taken, host=replace(taken.host, host="faraway")).saved()
    assert "may be measured on the machine faraway" in scaling_command.why_not(elsewhere)
    assert names(record.root) == before
    assert scaling_command.why_not(taken.left()) == ""
    live = trained(record.root, "live", 2, 1.0, states=((0.0, "starting"), (1.0, "running")))
    (live / "events" / "supervisor.jsonl").unlink()  # a run that was just made could still come up
    (live / "spec.json").touch()
    record = record.with_run(2, 1, live)
    refused = scaling_command.delete(record.root, "table", with_runs=False).problem
    assert "since a run of it goes on: live. Stop it first." in refused
    assert record.path.exists()


def test_a_run_that_cannot_be_removed_keeps_the_table(record: ScalingRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    remove = removal.remove

    def refuse(run_dir: Path) -> Removed:
        return Removed(freed_bytes=0, problem="No.") if run_dir.name == "two" else remove(run_dir)

    monkeypatch.setattr(removal, "remove", refuse)
    removed = scaling_command.delete(record.root, "table", with_runs=True)
    assert (removed.problem, names(record.root)) == ("No.", ["another", "table.scaling.json", "two"])
    monkeypatch.undo()
    assert scaling_command.delete(record.root, "table", with_runs=True).problem == "", "it can be deleted again"


def test_a_table_whose_runs_are_gone_keeps_a_row(record: ScalingRecord) -> None:
    for name in ("failed", "one", "two"):
        assert removal.remove(record.root / name).problem == ""
    found = RunIndex(record.root).poll()
    assert [each.dir.name for each in fold_runs(found, [shown(record)], ())] == ["another"], "not all may be read"
    rows = fold_runs(found, [shown(record)], (), all_read=True)
    assert [each.dir.name for each in rows] == ["another", "table.scaling.json"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--delete", "table", "--show", "table"), "Both --show and --delete are given. Give one of them."),
        (("--delete", "table", "--epochs", "3"), "--epochs cannot be combined with --delete: the scaling table keeps"),
        (("--delete", "table", "--csv", "x.csv"), "--csv and --delete cannot be combined. Write the table first."),
        (("--show", "table", "--with-runs"), "--with-runs and --yes go with --delete NAME. Leave them out."),
    ],
)
def test_wrong_use_is_one_sentence(record: ScalingRecord, capsys, words: tuple[str, ...], sentence: str) -> None:
    code, out, err = call(capsys, "scale", "--runs", record.root, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert record.path.exists()
