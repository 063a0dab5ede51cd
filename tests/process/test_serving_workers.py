"""Serving processes, which never exit by themselves, are terminated with their run without failing it."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from core.catalog.strategies import find_strategy
from core.devices.cpu import cpu_devices
from core.launchers.local import assign_ranks, environment
from core.runs.facts import RunState
from core.schema.spec import RunSpec
from core.system import processes
from tests.support.running import CAME_UP, FOREVER, make_spec, start, write_recipe
from tests.support.waiting import wait_until

FINISHED = [*CAME_UP, RunState.RELEASING, RunState.FINISHED]

RECIPE = """
import json, os, signal, subprocess, sys, time

assignment = json.loads(sys.argv[2])
is_worker = assignment["role"] != "fetch"
if is_worker and assignment["role"] != "chief" and {deaf}:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", "3600"])
if is_worker:
    fresh = "{notes}-" + str(assignment["rank"])
    with open(fresh, "w") as file:
        file.write(sys.argv[2])
    os.replace(fresh, "{notes}/" + str(assignment["rank"]))

def model():
    while is_worker and len(os.listdir("{notes}")) < assignment["world_size"]:  # like a real chief
        time.sleep(0.01)

def train_data():
    return range(64)
"""


@pytest.fixture
def actors(tmp_path: Path):
    """Return a function that makes a spec of a parameter server run whose processes record their assignment."""

    def make(*, waits: bool = False, deaf: bool = False) -> RunSpec:
        (tmp_path / "notes").mkdir(exist_ok=True)
        recipe = write_recipe(tmp_path, RECIPE.format(notes=tmp_path / "notes", deaf=deaf))
        spec = make_spec(recipe, devices="cpu:0,cpu:1", epochs=FOREVER if waits else 1)
        return replace(spec, framework="tensorflow", strategy="parameter_server")

    return make


def test_each_process_gets_its_role_devices_and_all_addresses(actors, runs_root: Path, tmp_path: Path) -> None:
    followed = start(actors(waits=True), runs_root).until(RunState.RUNNING)
    wait_until(lambda: len(list((tmp_path / "notes").iterdir())) == 4, "all four processes")
    followed.stop()
    answers = [json.loads((tmp_path / "notes" / str(rank)).read_text()) for rank in range(4)]
    assert [each["role"] for each in answers] == ["chief", "worker", "worker", "ps"]
    assert [each["own"] for each in answers] == [[], ["cpu:0"], ["cpu:1"], []]
    assert all(each["devices"] == ["cpu:0", "cpu:1"] and each["world_size"] == 4 for each in answers)
    assert [bool(each["cores"]) for each in answers] == [False, True, True, False]
    (addresses,) = {tuple(each["addresses"]) for each in answers}
    assert len(set(addresses)) == 4
    assert all(address.startswith("127.0.0.1:") for address in addresses)
    workers = followed.run.facts.workers
    assert [(workers[rank].role, workers[rank].devices) for rank in range(4)] == [
        ("chief", ()), ("worker", ("cpu:0",)), ("worker", ("cpu:1",)), ("ps", ()),
    ]
    assert followed.states == [*CAME_UP, RunState.STOPPING, RunState.RELEASING, RunState.STOPPED]


@pytest.mark.slow
@pytest.mark.parametrize("deaf", [False, True])
def test_serving_processes_are_terminated_when_the_chief_finishes(actors, runs_root: Path, deaf: bool) -> None:
    followed = start(actors(deaf=deaf), runs_root).until_over()
    assert followed.states == FINISHED
    codes = [followed.run.facts.workers[rank].exit_code for rank in range(4)]
    assert codes == [0, *[-signal.SIGKILL if deaf else -signal.SIGTERM] * 3]
    assert followed.run.facts.stop_steps == ()
    assert followed.run.facts.notices == ()
    # Children killed together with the servers are reported.
    ended = [(each.name, each.signal) for each in followed.run.facts.ended_processes]
    assert ended == [("sleep", "SIGKILL")] * 3 * deaf
    assert processes.tagged(followed.run.id) == []


@pytest.mark.slow
def test_server_that_dies_before_the_chief_finishes_fails_the_run(actors, runs_root: Path) -> None:
    followed = start(actors(waits=True), runs_root).until(RunState.RUNNING)
    wait_until(lambda: len(followed.poll().run.facts.workers) == 5, "all processes")
    os.kill(followed.run.facts.workers[3].process.pid, signal.SIGKILL)
    followed.until_over()
    assert followed.failure.startswith("The parameter server was ended by SIGKILL")
    assert processes.tagged(followed.run.id) == []


def test_only_networked_strategies_hide_other_ranks_devices() -> None:
    devices = [replace(device, kind="nvidia", id=f"GPU-{at}") for at, device in enumerate(cpu_devices()[:2])]

    def visible(framework: str, strategy: str) -> list[str]:
        made = assign_ranks(devices, find_strategy(framework, strategy))
        return [environment({}, "run", each)["CUDA_VISIBLE_DEVICES"] for each in made]

    assert visible("pytorch", "ddp") == ["GPU-0,GPU-1", "GPU-0,GPU-1"]
    assert visible("tensorflow", "mirrored") == ["GPU-0,GPU-1"]
    assert visible("tensorflow", "multi_worker_mirrored") == ["GPU-0", "GPU-1"]
    assert visible("tensorflow", "parameter_server") == ["", "GPU-0", "GPU-1", ""]
