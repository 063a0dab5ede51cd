"""Runs over two machines whose connection is cut, whose processes are killed or stopped, or one of which is lost.

The ranks train with the fake worker, also on the host: some two seconds of processor time each.
"""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.hosts.parts import run_hosts
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema import checkpoint
from core.schema.event_kinds import Verdict
from core.schema.spec import RunSpec
from tests.support.commands import call
from tests.support.running import FOREVER, LONG, Followed, make_spec, start, write_recipe
from tests.support.ssh_server import TRAINYARD, SshServer, add_host
from tests.support.two_hosts import (
    AWAY,
    cuts,
    has_ended,
    over_hosts,
    parts,
    processes_there,
    stop_with_every_step,
    supervisors_there,
    unreachable,
    worker_there,
)
from tests.support.waiting import wait_until

STEP_S = "0.005"
"""Seconds of a step: a run that waits for something takes less processor time than with shorter ones."""
GRACE_S = "10"
"""Where the other machine is lost. So long may an agent take to hold the part that it has started."""


@pytest.fixture(autouse=True)
def _host(server: SshServer, fake_python: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add the host, and remove parts whose run was lost: the user of that machine would delete them."""
    monkeypatch.setenv("FAKE_WORKER_STEP_S", STEP_S)
    add_host("one", f"env TRAINYARD_PYTHON_PYTORCH={fake_python} FAKE_WORKER_STEP_S={STEP_S} {TRAINYARD}")
    yield
    for part in parts(server):
        shutil.rmtree(part)


def long_spec(tmp_path: Path, source: str = LONG, unit: str = "never", every: int = 1) -> RunSpec:
    """A run that goes on until it is stopped."""
    checkpoints = {"unit": unit, "every": every}
    return over_hosts(make_spec(write_recipe(tmp_path, source), epochs=FOREVER, checkpoints=checkpoints))


@pytest.mark.slow
def test_stop_and_a_cut_connection(server: SshServer, runs_root: Path, tmp_path: Path) -> None:
    """A connection that is cut is made again, and no step is lost or recorded twice; then the run is stopped."""
    run = start(long_spec(tmp_path), runs_root).until_trained(50)
    for number, find in enumerate((server.sessions, server.agents), 1):
        wait_until(lambda: len(server.agents()) == 1, "the agent of an earlier connection to end")
        find()[0].kill()
        wait_until(lambda: run.poll() and cuts(run) == number, "the connection to be made again")  # noqa: B023
    run.until_trained(run.run.facts.step + 100)
    stop_with_every_step(run)
    assert parts(server) == []
    assert processes_there(server) == []


@pytest.mark.slow
def test_worker_that_is_killed_on_the_other_machine_fails_the_run(server, runs_root, tmp_path) -> None:
    long = f"{LONG}\nTABLE = {'x' * 300_000!r}  # longer than a pipe: a recipe travels in one request\n"
    run = start(long_spec(tmp_path, long), runs_root).until_trained(20)
    worker_there(server).send_signal(signal.SIGKILL)
    run.until_over()
    assert f"Worker 1 on {AWAY} was ended by SIGKILL" in run.failure
    assert parts(server) == []


@pytest.mark.slow
def test_supervisor_that_is_killed_on_the_other_machine_during_the_start_fails_the_run(
    server: SshServer, runs_root: Path, tmp_path: Path
) -> None:
    """No worker there has said why, and those here were only asked to end: the run must not count as finished."""
    run = start(long_spec(tmp_path, f"import time\ntime.sleep(3600)  # it does not get further\n{LONG}"), runs_root)
    found = wait_until(lambda: supervisors_there(server), "the supervisor on the host to start")
    part = Run.attach(parts(server)[0])
    wait_until(lambda: part.poll() and part.facts.supervisor, "its first event")
    found[0].kill()
    run.until_over()
    assert "The part of this run on one has ended. The run's supervisor" in run.failure
    assert parts(server) == []


@pytest.mark.slow
def test_part_that_is_deleted_on_the_other_machine_ends_the_run(server, runs_root, tmp_path, monkeypatch) -> None:
    """The machine can be reached, and has nothing of the run."""
    monkeypatch.setenv(run_hosts.GRACE_VARIABLE, "1")
    run = start(long_spec(tmp_path), runs_root).until_trained(20)
    shutil.rmtree(parts(server)[0].rename(tmp_path / "deleted"))  # at once: the part writes files in it
    run.until_over()
    assert "one says: There is no run" in run.failure
    assert len(run.run.facts.notices) < 5
    wait_until(lambda: not processes_there(server), "the processes on the host to end by themselves")


@pytest.mark.slow
def test_machine_that_is_lost_ends_the_run_which_is_resumed_when_it_is_back(
    server: SshServer, runs_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(run_hosts.GRACE_VARIABLE, GRACE_S)
    run = start(long_spec(tmp_path, unit="steps", every=20), runs_root).until_trained(60)
    with unreachable(server):
        run.until_over()
    assert "The run cannot go on without one" in run.failure
    assert run.run.facts.releases[AWAY].verdict is Verdict.CANNOT_BE_JUDGED
    wait_until(lambda: not processes_there(server), "the processes on the host to end by themselves")

    step = checkpoint.read(checkpoint.folders(run.run.dir)[0]).step
    resumed = Followed(Run.resume(run.run.dir)).until_trained(step + 20)
    resumed.stop()
    assert resumed.states[-1] is RunState.STOPPED
    assert parts(server) == [], "the part that was lost is removed, too"


@pytest.mark.slow
def test_part_ends_by_itself_when_the_supervisor_of_its_run_is_killed(
    server: SshServer, runs_root: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    """The part says that its head was lost, is listed so on the host, and can be removed there."""
    monkeypatch.setenv(run_hosts.GRACE_VARIABLE, GRACE_S)
    run = start(long_spec(tmp_path), runs_root).until_trained(20)
    run.kill_supervisor().until(RunState.LOST)
    wait_until(lambda: not processes_there(server), "the processes on the host to end")

    (part,) = parts(server)
    there = Followed(Run.attach(part)).until(RunState.HEAD_LOST)
    assert there.run.facts.state is RunState.HEAD_LOST
    assert "on which this run is supervised" in str(there.run.facts.error)
    code, out, _ = call(capsys, "runs", "--runs", part.parent)
    assert (code, "head lost" in out.lower()) == (0, True), out
    code, _, err = call(capsys, "resume", part.name, "--runs", part.parent)
    assert (code, f"trainyard resume {run.run.id}" in err) == (2, True), err
    code, _, err = call(capsys, "remove", part.name, "--yes", "--runs", part.parent)
    assert (code, parts(server)) == (0, []), err


@pytest.mark.slow
def test_agent_that_is_stopped_is_replaced_and_ends(server: SshServer, runs_root: Path, tmp_path: Path) -> None:
    run = start(long_spec(tmp_path), runs_root).until_trained(20)
    (agent,) = server.agents()
    agent.suspend()
    wait_until(lambda: run.poll() and cuts(run) == 1, "another agent to take the part over")
    wait_until(lambda: has_ended(agent), "the stopped agent to be continued and to end")
    run.until_trained(run.run.facts.step + 20)
    stop_with_every_step(run)
    assert parts(server) == []


@pytest.mark.slow
def test_resume_ends_a_part_that_a_stopped_agent_still_holds(server, runs_root, tmp_path) -> None:
    run = start(long_spec(tmp_path, unit="steps", every=20), runs_root).until_trained(60)
    (agent,) = server.agents()
    agent.suspend()
    worker_there(server).suspend()  # else it ends with the connection to the other rank
    run.kill_supervisor().until(RunState.LOST)

    resumed = Followed(Run.resume(run.run.dir))
    resumed.until_trained(run.run.facts.step + 20)
    assert any("An earlier part of this run was still running on one." in each for each in resumed.run.facts.notices)
    wait_until(lambda: has_ended(agent), "the stopped agent to end")
    resumed.stop()
    assert resumed.states[-1] is RunState.STOPPED, resumed.run.facts
    assert parts(server) == []
    assert processes_there(server) == []
