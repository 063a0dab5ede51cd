"""The checks that compute and train, with PyTorch on CPU devices."""

import json
import math
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from core.check.check import Level, State, run, scope_of
from core.check.gpu_work import PROBE, said
from core.check.table import CHECKS
from core.check.trainings import _same
from core.devices.sampler import Sampler
from tests.nvml.standin import ROOT
from tests.support.waiting import PATIENCE_S, wait_until

RUNS = "trainyard-check-*"
ROWS = {check.id: check for check in CHECKS}


@pytest.mark.parametrize(
    ("task", "terms", "holds"),
    [
        ("numbers", {"size": 64}, lambda said: max(said["errors"].values()) < 1e-2 and said["unlike"] == 0),
        ("speed", {"size": 32, "bytes": 1 << 16, "warm_up_s": 0.0},
         lambda said: said["done"] and all(said[each] > 0 for each in ("multiplies", "copies", "to_device"))),
        ("reduce", {"rank": 0, "world": 1, "seconds": 60, "bytes": 1 << 12, "large": 1 << 12},
         lambda said: said["wrong"] == 0 and said["rate"] > 0),
        ("hold", {"bytes": 1 << 12, "forks": False}, lambda said: (said["sum"], said["forked"]) == (8, None)),
        ("ipc", {"bytes": 1 << 12, "count": 1}, lambda said: said["wrong"] == [[0, 0, 0]]),
        ("steps", {"steps": 1}, lambda said: said["seconds"] > 0),
        ("numbers", {"size": -1}, lambda said: "negative" in said["error"]),
        ("numbers", {}, lambda said: said["error"] == "'size'"),
    ],
)
def test_program_that_computes(task, terms, holds, tmp_path: Path) -> None:
    terms = {**terms, "meet": f"file://{tmp_path}/store"}
    command = [sys.executable, PROBE, task, "cpu", json.dumps(terms)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    process.stdin.write(b"e")
    process.stdin.flush()
    answer = said(process.stdout.read())
    code = process.wait()
    process.communicate()
    assert holds(answer), answer
    assert code == int("error" in answer)  # it ends by itself


@pytest.mark.parametrize("forks", [False, True])
def test_end_of_the_input_ends_the_program_and_what_it_has_forked_and_shared(forks) -> None:
    command = [sys.executable, PROBE, "hold", "cpu", json.dumps({"bytes": 1 << 12, "forks": forks})]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        lines = iter(process.stdout.readline, b"")
        last = psutil.Process(next(answer["forked"] or process.pid for line in lines if (answer := said(line))))
        shared = Path(f"/dev/shm/torch_{last.pid}_of_a_test")
        shared.touch()
        if forks:  # by a program that was killed, as a loader is
            process.kill()
            process.wait()
        assert last.status() != psutil.STATUS_ZOMBIE
        process.stdin.close()
        wait_until(lambda: not last.is_running() or last.status() == psutil.STATUS_ZOMBIE, "its end")
    assert not shared.exists()


@pytest.mark.slow
def test_check_trains_pauses_kills_hangs_and_sums_on_cpu_devices_and_leaves_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Sampler(only=["cpu:0", "cpu:1"]) as sampler:
        survey = sampler.survey(PATIENCE_S)
    rows = ("train-pytorch", "pause", "kills", "hang", "p2p-values", "numbers", "memory")
    with scope_of(survey, ["cpu:0", "cpu:1"], computes=True) as scope:
        results = {each.check.id: each for each in run([ROWS[each] for each in rows], scope)}
        assert list(tmp_path.glob(RUNS))
    assert not list(tmp_path.glob(RUNS))
    for name in ("train-pytorch", "pause", "kills", "hang", "p2p-values"):
        assert results[name].state is State.PASS, results[name]
    assert results["train-pytorch"].value == (
        "trained: single, ddp, fsdp, pipeline and placement; Strategy data_parallel runs on NVIDIA GPUs only."
    )
    assert [results[name].state for name in ("numbers", "memory")] == 2 * [State.NOT_APPLICABLE]
    assert "Worker 1: in Python code at hanging.py, line 16, in forward" in results["hang"].value, results["hang"]
    last, whole = results["pause"].value.partition("last loss ")[2].split(", without a pause ")
    assert float(last) == float(whole)


@pytest.mark.parametrize(("losses", "are"), [((1.0, 1.0005), True), ((1.0, 1.1), False), ((math.nan, 1.0), False),
                                            ((math.nan, math.nan), False)])
def test_loss_that_is_no_number_is_not_the_same(losses, are) -> None:
    assert _same(*losses) == are


def check_full(*options: str, **changes: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "core.cli", "check", "--full", "--yes", "--devices", "cpu:0,cpu:1", *options]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True, **changes)


@pytest.mark.soak
def test_full_check_on_two_cpu_devices() -> None:
    """The rehearsal of the check on a machine with a GPU."""
    out, _ = check_full("--json").communicate()
    states = {each["id"]: each["state"] for each in json.loads(out)["checks"]}
    trained = {check.id for check in CHECKS if check.level is Level.FULL} - {"memory", "watching"}
    assert {states.pop(each) for each in trained} == {"pass"}
    assert states.pop("watching") in {"pass", "problem"}  # as busy as the machine is
    assert {states.pop(each) for each in ("surroundings", "frameworks", "p2p-values")} == {"pass"}
    assert set(states.values()) == {"not_applicable"}


@pytest.mark.soak
@pytest.mark.parametrize("row", ["frameworks", "p2p-values", *(each.id for each in CHECKS if each.level is Level.FULL)])
def test_full_check_killed_in_any_row_leaves_nothing(tmp_path: Path, row) -> None:
    process = check_full(env={**dict(psutil.Process().environ()), "TMPDIR": str(tmp_path)})
    for _ in range(list(ROWS).index(row)):  # the results of the rows before it
        process.stdout.readline()
    time.sleep(random.uniform(0.0, 10.0))
    started = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    wait_until(lambda: not list(tmp_path.iterdir()), "the end of its runs")
    psutil.wait_procs(started, PATIENCE_S)
    left = [" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]
    assert not [words for words in left if str(tmp_path) in words]


COMMAND = "TRAINYARD_GPU_COMMAND"
"""The variable that names a program with all measurements for a machine with a GPU. It is no part of the project."""


@pytest.mark.soak
def test_rehearsal_of_the_command_for_a_machine_with_a_gpu(tmp_path: Path) -> None:
    if COMMAND not in os.environ:
        pytest.skip(f"{COMMAND} does not name a program")
    options = ("--device", "cpu:0", "--budget", "3600")  # otherwise what is late on a slow machine is left out
    subprocess.run([sys.executable, os.environ[COMMAND], tmp_path / "out", *options], cwd=ROOT, check=True)
    blocks = json.loads((tmp_path / "out/all.json").read_text())
    measured = {"script_throughput", "watching"}  # as busy as the machine is
    assert {name for name, block in blocks.items() if block["ok"] is False} <= measured, blocks
    assert blocks["kills"]["ok"]
    assert blocks["pause_resume"]["ok"]
