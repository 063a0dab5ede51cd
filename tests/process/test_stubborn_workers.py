"""Data-loader workers that sleep for an hour and ignore signals are killed with their run and reported."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.event_kinds import Verdict
from core.schema.settings import StopTimeouts
from core.series import report
from core.system import processes
from tests.support.running import FOREVER, Followed, attached, make_spec, start, write_recipe
from tests.support.waiting import PATIENCE_S, wait_until

WORKERS = 2

STUBBORN = """
import os, signal, time
from pathlib import Path

def model():
    pass

def train_data():
    return range(64)

def loss():
    calls = []
    def measure(weight, items):
        calls.append(1)
        if len(calls) == 5:  # so that training is under way
            for _ in range({workers}):
                if os.fork() == 0:
                    sleep()
        time.sleep(0.01)
        return weight
    return measure

def sleep():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    {leaves}
    (Path(__file__).parent / f"asleep-{{os.getpid()}}").touch()
    while True:
        time.sleep(3600)
"""


@pytest.fixture(params=["in the worker's session", "in a session of its own"])
def asleep(request: pytest.FixtureRequest, runs_root: Path, tmp_path: Path) -> tuple[Followed, set[int]]:
    """A run whose data-loader workers are all asleep, and the pids of these workers."""
    leaves = "os.setsid()" if "own" in request.param else "pass"
    recipe = write_recipe(tmp_path / "recipe", STUBBORN.format(leaves=leaves, workers=WORKERS), "stubborn")
    # The worker that is asked to stop ends by itself: its process group is not killed with it.
    spec = make_spec(recipe, epochs=FOREVER, batch_size=8, stop_timeouts=StopTimeouts(ask_s=PATIENCE_S))
    followed = start(spec, runs_root).until_trained(1)
    wait_until(lambda: len(sleepers(tmp_path)) == WORKERS, "the data-loader workers to be asleep")
    return followed, sleepers(tmp_path)


def sleepers(tmp_path: Path) -> set[int]:
    return {int(path.name.partition("-")[2]) for path in (tmp_path / "recipe").glob("asleep-*")}


def nothing_left(run: Run, pids: set[int]) -> bool:
    """True if no process of the run is alive, judged by its tag and by the known pids."""
    return not processes.tagged(run.id) and not any(psutil.pid_exists(pid) for pid in pids)


def test_stop_kills_stubborn_data_loader_workers_and_reports_them(asleep: tuple[Followed, set[int]]) -> None:
    followed, pids = asleep
    followed.run.request("stop")
    wait_until(lambda: nothing_left(followed.run, pids), "all processes of the run to be gone")
    followed.until_over()
    assert followed.state is RunState.STOPPED
    ended = followed.run.facts.ended_processes
    assert {each.pid for each in ended} == pids
    assert {(each.signal, each.by) for each in ended} == {("SIGKILL", "supervisor")}
    assert all(each.name and "python" in str(each.command) for each in ended)
    release = followed.run.facts.releases["cpu:0"]
    assert release.verdict is Verdict.RELEASED
    assert all(f"pid {pid}" in release.sentence for pid in pids), release.sentence
    shown = report.document(Run.attach(followed.run.dir))["release"]
    assert shown["verdict"] == "released"
    assert {each["pid"] for each in shown["ended"]} == pids


# Only with their own session: otherwise they are in the worker's process group, which is killed with its supervisor.
@pytest.mark.parametrize("asleep", ["in a session of its own"], indirect=True)
def test_stubborn_data_loader_workers_end_after_the_supervisor_is_killed(asleep: tuple[Followed, set[int]]) -> None:
    followed, pids = asleep
    assert {os.getsid(pid) for pid in pids} == pids
    followed.kill_supervisor()
    wait_until(lambda: nothing_left(followed.run, pids), "all processes of the run to be gone")
    assert followed.until_over().state is RunState.LOST
    assert followed.run.facts.releases == {}
    named = wait_until(lambda: attached(followed.run.dir).facts.ended_processes, "the guard's word")
    assert pids <= {each.pid for each in named}
    assert {(each.signal, each.by) for each in named} == {("SIGKILL", "guard")}
