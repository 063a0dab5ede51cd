"""The command `scale` with trainings of the fake worker: the table, failures, interruptions, refusals."""

import csv
import errno
import json
import os
import signal
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from core.history.index import directories
from core.results import scaling_record
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.spec import read_spec
from core.system.processes import here
from tests.support.commands import call, in_a_process
from tests.support.running import FOREVER, LONG, Followed, write_recipe
from tests.support.scaling_runs import HELD_RECIPE
from tests.support.waiting import PATIENCE_S, wait_until

FAILING = """\
import os

def model():
    if "1-device" in os.environ["TRAINYARD_RUN"]:
        raise ValueError("one device is too few")

def train_data():
    return list(range(64))
"""
SETTINGS = ("--devices", "cpu:0,cpu:1", "--epochs", "3", "--batch-size", "16", "--checkpoint-every", "never")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, dict[str, Any], str]:
    """A table with two repeats: the folder of runs, the recipe, the document that was printed, the messages."""
    root = tmp_path_factory.mktemp("scaling")
    recipe = write_recipe(root, HELD_RECIPE.format(held=str(root / "held")))
    options = ("--repeats", "2", "--name", "two cores", "--csv", root / "table.csv", "--runs", root / "runs", "--json")
    with in_a_process("scale", recipe, *SETTINGS, *options) as command:
        out, err = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 0, err
    return root, recipe, json.loads(out), err


@pytest.mark.slow
def test_the_document_has_a_row_for_each_number_of_devices(measured) -> None:
    root, _, document, err = measured
    one, two = document["rows"]
    assert err == "", "with --json, all is in the document"
    assert [(row["devices"], row["strategy"], row["device_ids"]) for row in (one, two)] == [
        (1, "single", ["cpu:0"]), (2, "ddp", ["cpu:0", "cpu:1"]),
    ]
    assert (one["speed_up"], one["efficiency"], one["n"], two["n"]) == (1.0, 1.0, 2, 2)
    assert two["speed_up"] == pytest.approx(two["samples_per_s"] / one["samples_per_s"])
    assert two["efficiency"] == pytest.approx(two["speed_up"] / 2)
    assert two["spread"]["samples_per_s"] > 0
    assert [one["same_curve"], two["same_curve"]] == [True, True]
    assert two["curve"] == {"steps": 12, "largest_difference": pytest.approx(0, abs=1e-9), "first_different_step": None}
    assert set(two["peak_memory_bytes"]) <= {"cpu:0", "cpu:1"}
    assert document["complete"] is True
    rows = list(csv.DictReader((root / "table.csv").read_text().splitlines()))
    assert [row["devices"] for row in rows] == ["1", "2"]
    assert float(rows[1]["speed_up"]) == two["speed_up"]
    assert (rows[1]["same_curve"], rows[1]["states"]) == ("true", "finished finished")


def test_each_training_is_an_ordinary_run_alone_on_its_devices(measured) -> None:
    root, _, document, _ = measured
    runs = [Followed(Run.attach(each)).until_over().run for each in reversed(directories(root / "runs"))]
    runs.sort(key=lambda run: run.facts.started or 0)
    assert [read_spec(run.dir).name for run in runs] == ["two cores: 1 device", "two cores: 2 devices"] * 2
    assert sorted(run.id for run in runs) == sorted(each for row in document["rows"] for each in row["runs"])
    for earlier, later in pairwise(runs):
        assert earlier.facts.ended <= later.facts.started, "the memory was back before the next one"


def test_a_finished_table_is_shown_and_continued_without_a_training(measured, capsys) -> None:
    root, _, document, _ = measured
    before = directories(root / "runs")
    assert json.loads(call(capsys, "scale", "--show", "two cores", "--runs", root / "runs", "--json")[1]) == document
    code, out, _ = call(capsys, "scale", "--resume", "two cores", "--runs", root / "runs")
    headings, one, two = out.splitlines()
    assert code == 0
    assert headings.split()[:6] == ["DEVICES", "STRATEGY", "BATCH", "SAMPLES/S", "SPEED-UP", "EFFICIENCY"]
    assert one.split()[:3] == ["1", "single", "16"]
    assert (two.split()[-2:], " ± " in two) == (["same", "finished"], True)
    code, out, _ = call(capsys, "scale", "--show", "two cores", "--runs", root / "runs", "--markdown", "-")
    lines = out.split("\n\n")[0].splitlines()
    assert code == 0
    assert len(lines) == 4
    assert {line.count("|") for line in lines} == {10}
    assert set(lines[1]) == {"|", "-", " "}
    assert directories(root / "runs") == before


@pytest.mark.slow
def test_an_interrupted_table_is_continued_with_what_is_missing(tmp_path: Path, runs_root: Path, capsys) -> None:
    held = tmp_path / "held"
    held.touch()
    recipe = write_recipe(tmp_path, HELD_RECIPE.format(held=str(held)), name="tiny")
    # The held training takes no notice of a request to stop.
    with in_a_process(
        "scale", recipe, *SETTINGS, "--ask-timeout", "0.2", "--name", "tiny table", "--runs", runs_root
    ) as command:
        held_run = _run_on_two(runs_root)
        assert any("Training 2 of 2" in line for line in command.stderr)
        command.stderr.readline()  # its progress: the command follows it, and will stop it
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 3, err
    assert "Nothing more was started." in err
    assert "1 training has no result yet: trainyard scale --resume 'tiny table'" in err
    assert out.splitlines()[2].split() == ["2", "ddp", "16", *"-----", "stopped"]
    assert held_run.until_over().state is RunState.STOPPED
    first = directories(runs_root)[-1].name
    held.unlink()
    code, out, _ = call(capsys, "scale", "--resume", "tiny table", "--runs", runs_root, "--json")
    one, two = json.loads(out)["rows"]
    assert code == 0
    assert one["runs"] == [first], "it is not trained again"
    assert two["states"] == ["finished"]
    assert two["runs"] != [held_run.run.id]
    assert two["same_curve"] is True


@pytest.mark.slow
def test_a_run_goes_on_when_the_command_is_killed_and_counts(tmp_path: Path, runs_root: Path, capsys) -> None:
    held = tmp_path / "held"
    held.touch()
    recipe = write_recipe(tmp_path, HELD_RECIPE.format(held=str(held)))
    with in_a_process("scale", recipe, *SETTINGS, "--runs", runs_root, "--name", "killed") as command:
        held_run = _run_on_two(runs_root)
        code, _, err = call(capsys, "scale", "--resume", "killed", "--runs", runs_root)
        sentence = f"The scaling table killed is being measured by another command (pid {command.pid})."
        assert (code, err) == (2, f"trainyard: {sentence} Wait for it, or stop it with Ctrl-C.\n")
        command.kill()
        command.communicate()
    held.unlink()
    code, out, _ = call(capsys, "scale", "--resume", "killed", "--runs", runs_root, "--json")
    document = json.loads(out)
    assert (code, document["complete"]) == (0, True)
    assert document["rows"][1]["runs"] == [held_run.run.id]
    assert len(directories(runs_root)) == 2


@pytest.mark.slow
def test_a_failed_run_has_a_row_and_the_others_go_on(tmp_path: Path, runs_root: Path, capsys) -> None:
    recipe = write_recipe(tmp_path, FAILING, name="few")
    code, out, err = call(capsys, "scale", recipe, *SETTINGS, "--runs", runs_root, "--batch", "per-device")
    _, one, two = out.splitlines()
    failed = directories(runs_root)[-1].name
    assert code == 1
    assert one.split() == ["1", "single", "16", *"-----", "failed"]
    assert two.split()[:3] == ["2", "ddp", "32"]
    assert two.split()[-1] == "finished", err
    assert (
        f"trainyard: Run {failed} on 1 device has no result. Worker 0 on cpu:0: ValueError: one device is too few"
        in err
    )
    assert "No run on one device has finished, so there is no speed-up and no efficiency." in err
    assert "With a fixed batch per device the global batch grows with the devices. The curves differ by design" in err


def test_a_run_that_cannot_be_noted_is_stopped(tmp_path: Path, runs_root: Path, capsys, monkeypatch) -> None:
    write_whole = scaling_record.write_whole

    def write(path: Path, text: str) -> None:
        if '"run": "' in text:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write_whole(path, text)

    monkeypatch.setattr(scaling_record, "write_whole", write)
    recipe = write_recipe(tmp_path, LONG)
    settings = ("--devices", "cpu:0,cpu:1", "--epochs", FOREVER, "--checkpoint-every", "never")
    code, out, err = call(capsys, "scale", recipe, *settings, "--runs", runs_root)
    assert (code, out) == (2, "")
    assert "The disk is full" in err
    (run_dir,) = directories(runs_root)
    assert Followed(Run.attach(run_dir)).until_over().state is RunState.STOPPED


def _run_on_two(runs_root: Path) -> Followed:
    """Wait until the training on two devices runs and is in the table, and return it."""

    def found() -> list[Path]:
        return [each for each in directories(runs_root) if "2-devices" in each.name]

    followed = Followed(Run.attach(wait_until(found, "the run on two devices")[0]))
    followed.until(RunState.RUNNING)
    wait_until(
        lambda: any(followed.run.id in path.read_text() for path in runs_root.glob("*.scaling.json")),
        "the command to have noted it",
    )
    return followed


# -- refusals ------------------------------------------------------------------------------------

DIGITS = ("digits_mlp", "--devices", "cpu:0,cpu:1")


@pytest.fixture
def planted(runs_root: Path) -> Path:
    """A folder of runs with files that pose as scaling tables."""
    runs_root.mkdir()
    (runs_root / "taken.scaling.json").write_text("{}")
    (runs_root / "garbage.scaling.json").write_text("no JSON")
    (runs_root / "newer.scaling.json").write_text('{"version": 99}')
    (runs_root / "linked.scaling.json").symlink_to("/etc/passwd")
    return runs_root


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "No recipe is given. Name one (`trainyard recipes` lists them), or continue a table with --resume NAME."),
        (("no_such", "--devices", "cpu:0,cpu:1"), "There is no recipe 'no_such'. Built in for pytorch: "),
        (("digits_mlp",), "A scaling table needs at least two devices, but 0 are chosen."),
        (("digits_mlp", "--devices", "cpu:0"), "A scaling table needs at least two devices, but 1 is chosen."),
        (("digits_mlp", "--devices", "cpu:1,cpu:1"), "A device is named twice in cpu:1, cpu:1. Name each once."),
        (("digits_mlp", "--devices", "cpu:0,cpu:9"), "There is no device 'cpu:9' here. Choose from: cpu:0, cpu:1."),
        ((*DIGITS, "--strategy", "single"), "compares several. Choose one of: ddp, fsdp, pipeline, placement."),
        ((*DIGITS, "--strategy", "magic"), "PyTorch has no strategy 'magic' here."),
        ((*DIGITS, "--framework", "caffe"), "There is no framework 'caffe' here."),
        ((*DIGITS, "--strategy", "data_parallel"), "Strategy data_parallel runs on NVIDIA GPUs only."),
        ((*DIGITS, "--strategy", "pipeline", "--batch", "per-device"), "Strategy pipeline does not split the batch"),
        ((*DIGITS, "--batch", "half"), "--batch is 'half'. Choose one of: "),
        ((*DIGITS, "--batch-size", "33"), "1 and 2 devices with an accumulation of 1. Choose a batch of 32 or 34."),
        ((*DIGITS, "--batch-size", "33", "--batch", "per-device", "--accumulation", "2"), "cannot be split evenly"),
        ((*DIGITS, "--epochs", "1"), "The first epoch does not count"),
        ((*DIGITS, "--repeats", "0"), "--repeats is 0. Give a whole number of at least 1."),
        ((*DIGITS, "--allow-open-ports"), "Strategy ddp opens no ports"),
        ((*DIGITS, "--name", "a/b"), "A scaling table cannot have the name 'a/b', since its file has it, too."),
        ((*DIGITS, "--name", "taken"), "There is a scaling table taken already. Give another name, or continue it: "),
        ((*DIGITS, "--csv", "/no/such/folder/table.csv"), "there is no folder /no/such/folder. Name another file."),
        ((*DIGITS, "--csv", "/etc/passwd"), "/etc/passwd exists already. Name another file, or add --force"),
        ((*DIGITS, "--markdown", "-", "--json"), "Standard output can take one document. Name a file in the place"),
        ((*DIGITS, "--setup", "nightly"), "--setup nightly are not arguments of trainyard scale."),
        (("--resume", "none"), "There is no scaling table 'none' in "),
        (("--resume", "../runs/taken"), "There is no scaling table '../runs/taken' in "),
        (("--show", "linked"), "There is no scaling table 'linked' in "),
        (("--show", "taken"), "taken.scaling.json is not a scaling table. It lacks "),
        (("--show", "garbage"), "garbage.scaling.json is not a scaling table. It is damaged: it is not JSON."),
        (("--show", "newer"), "It was written by a newer Trainyard. Update Trainyard to open it."),
        (("--resume", "taken", "--show", "taken"), "Both --resume and --show are given. Give one of them."),
        (("digits_mlp", "--resume", "taken"), "A recipe cannot be combined with --resume: "),
        (("--show", "taken", "--epochs", "5"), "--epochs cannot be combined with --show: "),
    ],
)
def test_what_makes_no_table_is_one_sentence_and_starts_nothing(planted, capsys, arguments, sentence) -> None:
    before = sorted(planted.iterdir())
    code, out, err = call(capsys, "scale", *arguments, "--runs", planted)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.startswith("trainyard: ")
    assert err.count("\n") == 1
    assert sorted(planted.iterdir()) == before


def test_a_broken_recipe_is_refused(tmp_path: Path, runs_root: Path, capsys) -> None:
    recipe = write_recipe(tmp_path, "import no_such_package\n" + FAILING)
    code, _, err = call(capsys, "scale", recipe, *SETTINGS, "--runs", runs_root)
    assert (code, err.count("\n")) == (2, 1)
    assert "no_such_package" in err
    assert not runs_root.exists()


def copied(measured, runs_root: Path, **change: Any) -> None:
    """Copy the record of the table into another folder, with other fields."""
    document = json.loads((measured[0] / "runs" / "two cores.scaling.json").read_text())
    runs_root.mkdir()
    (runs_root / "two cores.scaling.json").write_text(json.dumps({**document, **change}))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"runs": [{"devices": 1, "repeat": 1, "run": "../elsewhere"}]}, "It names a run that is not in its folder."),
        ({"batch": "half"}, "Its trainings are not those of one recipe on more and more devices."),
        ({"repeats": 10**9}, "Its trainings are not those of one recipe on more and more devices."),
        ({"specs": []}, "Its trainings are not those of one recipe on more and more devices."),
        ({"host": None}, "Its field host is None where an object is expected."),
    ],
)
def test_a_damaged_record_is_refused(measured, runs_root: Path, capsys, change: dict[str, Any], sentence: str) -> None:
    copied(measured, runs_root, **change)
    code, out, err = call(capsys, "scale", "--show", "two cores", "--runs", runs_root)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


@pytest.mark.slow
def test_a_record_of_another_machine_is_shown_and_not_continued(measured, runs_root: Path, capsys) -> None:
    copied(measured, runs_root, host={**asdict(here()), "host": "elsewhere"})
    code, _, err = call(capsys, "scale", "--resume", "two cores", "--runs", runs_root)
    assert (code, err.count("\n")) == (2, 1)
    assert "was begun on the machine elsewhere, whose devices it measures. Continue it there" in err
    code, out, _ = call(capsys, "scale", "--show", "two cores", "--runs", runs_root, "--json")
    assert code == 0
    assert [row["states"] for row in json.loads(out)["rows"]] == [["missing", "missing"]] * 2, "its runs are not there"
