"""Which run writes a file, where several write into one folder."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest

from core.metrics.collector import CACHE_S, FileOwners
from core.system.processes import TAG
from tests.support.recorded_events import scalar_record
from tests.support.running import LONG, curves, make_spec, script_spec, start, write_recipe
from tests.support.waiting import wait_until

OWN, OTHER = (f"run-{number}-of-{os.getpid()}" for number in (1, 2))
"""Two runs that no test in another process has, too."""
HOLD_SOURCE = """\
import sys
file = open(sys.argv[1], "a") if len(sys.argv) > 1 else None
print(".", flush=True)
for line in sys.stdin:  # appended to the file that it names, which is closed at once
    path, _, text = line.partition(" ")
    with open(path, "a") as file:
        file.write(text)
    print(".", flush=True)
"""
WRITES = """\
import json, sys, time
from pathlib import Path

name, first, met = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
records = [bytes.fromhex(each) for each in json.loads(sys.argv[4])]
folder = Path(name)
folder.mkdir()
events, table = (folder / "events.out.tfevents.1.host").open("wb"), (folder / "held.csv").open("w")
table.write("step,loss\\n")
for step, record in enumerate(records, start=1):
    events.write(record)
    table.write(f"{step},{first + step}\\n")
    for file in (events, table):
        file.flush()
    with (folder / "closed.csv").open("a") as file:
        file.write(("step,mae\\n" if step == 1 else "") + f"{step},{first + step}\\n")
    with (folder / "log.jsonl").open("a") as file:
        file.write(json.dumps({"step": step, "reward": first + step}) + "\\n")
    print(f"step {step} accuracy: {first + step}", flush=True)
    (met / name).touch()
    while len(list(met.iterdir())) < 2:
        time.sleep(0.01)
while not (met.parent / "read").exists():  # a run has the files that its processes have open
    time.sleep(0.01)
"""
RECIPE = """
def loss():
    import time
    from pathlib import Path

    met, calls = Path({met!r}), []
    def measure(weight, items):
        calls.append(1)
        (met / {name!r}).touch()
        while len(list(met.iterdir())) < 2:
            time.sleep(0.01)
        return {first} + len(calls)
    return measure
"""
STEPS = 20
CURVES = {"recipe": ["loss"], "script": ["accuracy", "loss", "mae", "psnr", "reward"]}


@pytest.fixture
def start_process() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a process of a run in a folder; returns once the process has opened the given files."""
    started: list[subprocess.Popen[bytes]] = []

    def start_one(run_id: str, folder: Path, *opened: Path, program: Path | None = None) -> subprocess.Popen[bytes]:
        started.append(
            subprocess.Popen(
                [sys.executable, *([program] if program else ["-c", HOLD_SOURCE]), *map(str, opened)], cwd=folder,
                env={TAG: run_id},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )
        )
        started[-1].stdout.read(1)
        return started[-1]

    yield start_one
    for each in started:
        each.communicate()


def test_file_belongs_to_run_that_has_it_open(tmp_path, start_process) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    ours, theirs, unopened, far = (here / name for name in ("ours.csv", "theirs.csv", "unopened.csv", "far.csv"))
    for path in (ours, theirs, unopened, far):
        path.touch()

    def ownership() -> list[bool]:
        writers = FileOwners(OWN, here)
        return [writers.is_ours(str(path), path.stat()) for path in (ours, theirs, unopened, far)]

    start_process(OWN, here, ours)
    assert ownership() == [True, True, True, True], "no other run is active"
    start_process(OTHER, elsewhere, far)
    assert ownership() == [True, True, True, False], "another run has far.csv open"
    start_process("run-3", here, theirs)
    assert ownership() == [True, False, False, False], "another run works in the same folder"


def test_file_belongs_to_the_run_in_the_nearest_folder(tmp_path, start_process) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    files = [tmp_path / "outer" / "outer.csv", inner / "inner.csv"]
    for path in files:
        path.touch()

    def ownership(folder: Path) -> tuple[list[bool], dict[str, str]]:
        owners = FileOwners(OWN, folder)
        return [owners.is_ours(str(path), path.stat()) for path in files], owners.refused

    start_process(OTHER, Path("/"))
    boot = tmp_path / "core" / "worker" / "boot.py"
    boot.parent.mkdir(parents=True)
    boot.write_text(HOLD_SOURCE)
    start_process(OTHER, inner, program=boot)
    assert ownership(inner) == ([True, True], {}), "the worker of a recipe"
    start_process("run-3", tmp_path / "outer")
    assert ownership(inner) == ([False, True], {str(files[0]): "run-3"})
    start_process("run-4", inner)
    assert ownership(tmp_path / "outer") == ([False, False], {str(files[0]): "run-3", str(files[1]): "run-4"})


def test_folder_of_a_log_that_a_process_of_the_run_has_open_is_told(tmp_path, start_process) -> None:
    log, other = tmp_path / "disk" / "events.out.tfevents.1", tmp_path / "else" / "data.bin"
    for path in (log, other):
        path.parent.mkdir()
    start_process(OWN, tmp_path, log)
    start_process(OWN, tmp_path, other)
    owners = FileOwners(OWN, tmp_path / "work", clock=lambda: 0.0)
    assert owners.look() == {log.parent}
    assert owners.look() == set(), "not again at once"


def test_run_that_has_just_started_has_its_file(tmp_path, start_process) -> None:
    """The processes of all runs were listed before it started; the clock stands still, so the list stays valid."""
    owners = FileOwners(OWN, tmp_path, clock=lambda: 0.0)
    ours, theirs = tmp_path / "ours.csv", tmp_path / "theirs.csv"
    start_process(OWN, tmp_path, ours)
    assert owners.is_ours(str(ours), ours.stat())
    start_process(OTHER, tmp_path, theirs)
    assert not owners.is_ours(str(theirs), theirs.stat())
    assert owners.is_ours(str(ours), ours.stat())


def write(process: subprocess.Popen[bytes], path: Path, text: str) -> None:
    """Have a process append a line to a file, which it closes."""
    process.stdin.write(f"{path} {text}\n".encode())
    process.stdin.flush()
    process.stdout.read(2)


def test_closed_file_belongs_to_the_run_that_has_written_as_much_as_it_grew(tmp_path, start_process) -> None:
    one, two = (start_process(run, tmp_path) for run in (OWN, OTHER))
    table, left = tmp_path / "table.csv", tmp_path / "left.csv"
    now = [0.0]
    owners = {run: FileOwners(run, tmp_path, clock=lambda: now[0]) for run in (OWN, OTHER)}

    def ownership(path: Path) -> list[bool]:
        return [each.is_ours(str(path), path.stat()) for each in owners.values()]

    def compare() -> None:
        for each in owners.values():
            each.compare()

    write(one, table, "step,loss")
    write(two, left, "step,loss")
    assert ownership(table) == ownership(left) == [False, False]
    compare()
    assert ownership(table) == [False, False], "it has not grown since"
    write(one, table, "1,0.5")
    compare()
    assert ownership(table) == [True, False]
    assert [each.refused for each in owners.values()] == [{str(left): OTHER}, {str(left): OWN}]
    unseen = tmp_path / "unseen.csv"
    write(two, unseen, "step,loss")
    two.communicate()
    now[0] = 2 * CACHE_S
    assert ownership(unseen) == [False, False], "written before the other run was over"
    compare()
    assert ownership(left) == [False, False], "the end of a run says nothing about the files that are there"
    for step in range(3):  # run-2 may have written something since its processes were listed
        write(one, left, f"{step},0.5")
        compare()
    assert ownership(left)[0]
    assert owners[OWN].refused == {str(unseen): OTHER}


def test_command_lines_decide_at_the_end_of_a_run_whose_file_it_is(tmp_path, start_process) -> None:
    (tmp_path / "first").mkdir()
    paths = [tmp_path / "first" / "log.csv", tmp_path / "log.csv"]
    for path in paths:
        path.touch()
    for run, name in ((OWN, "first"), (OTHER, "second")):
        start_process(run, tmp_path, tmp_path / name / "out.bin" if name == "first" else tmp_path / "second.bin")
    owners = FileOwners(OWN, tmp_path)
    for last in (False, True):
        assert [owners.is_ours(str(path), path.stat()) for path in paths] == [False, False]
        owners.look(last=last)
    assert [owners.is_ours(str(path), path.stat()) for path in paths] == [True, False]
    assert owners.refused == {str(paths[1]): OTHER}


@pytest.mark.parametrize("kinds", [*product(["recipe", "script"], repeat=2)], ids="+".join)
@pytest.mark.parametrize("folders", [("here", "here"), ("here", "here/below"), ("here", "beside")], ids="+".join)
def test_every_curve_of_two_runs_at_once_is_whole_and_its_own(folders, kinds, tmp_path, runs_root) -> None:
    met, runs = tmp_path / "met", {}
    met.mkdir()
    for kind, folder, name, first, device in zip(
        kinds, folders, ("one", "two"), (1000.0, 2000.0), ("cpu:0", "cpu:1"), strict=True
    ):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        if kind == "recipe":
            source = LONG.replace("items=64", f"items={STEPS}") + RECIPE.format(met=str(met), name=name, first=first)
            recipe = write_recipe(tmp_path / folder, source, name)
            spec = make_spec(recipe, devices=device, batch_size=1, epochs=1)
        else:
            program = tmp_path / folder / "train.py"
            program.write_text(WRITES)
            records = [scalar_record("psnr", first + step, step).hex() for step in range(1, STEPS + 1)]
            arguments = (name, str(first), str(met), json.dumps(records))
            spec = script_spec(program, *arguments, cwd=tmp_path / folder, devices=device)
        runs[name] = kind, first, start(spec, runs_root)
    for kind, _, run in runs.values():
        if kind == "script":
            wait_until(lambda run=run: {"loss", "psnr"} <= run.poll().run_series.metrics.keys(), "the open files")  # type: ignore[misc]
    (tmp_path / "read").touch()
    for kind, first, run in runs.values():
        found = curves(run.until_over())
        wanted = [first + step for step in range(1, STEPS + 1)]
        assert {name: found.get(name) for name in CURVES[kind]} == dict.fromkeys(CURVES[kind], wanted)
        assert not any("not read" in notice or "has a curve" in notice for notice in run.run.facts.notices)
