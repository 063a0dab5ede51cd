"""Runs over two machines, through a real ssh server: one curve, pause and resume, cuts, and machines that are lost.

Each run starts PyTorch twice, cold: about ten seconds of processor time.
"""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from core.hosts.inquiry import devices_of
from core.runs.facts.states import RunState
from core.runs.facts.verdicts import Verdict
from core.runs.run import Run
from core.schema import checkpoint
from core.supervisor.hosts import run_hosts
from tests.support.commands import call
from tests.support.running import (
    FOREVER,
    LONG_PYTORCH,
    Followed,
    make_spec,
    script_spec,
    start,
    train,
    write_recipe,
)
from tests.support.ssh_server import add_host
from tests.support.two_hosts import (
    AWAY,
    cuts,
    follows_the_curve_of,
    over_hosts,
    parts,
    processes_there,
    stop_with_every_step,
    supervisors_there,
    unreachable,
    worker_there,
)
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from core.schema.spec import RunSpec
    from tests.support.ssh_server import SshServer

pytestmark = pytest.mark.e2e
DESCENT = """\
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
print("agent store", os.environ["TORCHELASTIC_USE_AGENT_STORE"])
rank, size = dist.get_rank(), dist.get_world_size()
x = torch.arange(1.0, 9.0)[rank::size]
weight = torch.zeros(())
for step in range(1, 21):
    error = weight * x - 3 * x
    found = torch.stack([(error**2).sum(), (2 * x * error).sum()])
    dist.all_reduce(found)
    print(f"step {step} loss {found[0].item() / 8:.8f}", flush=True)
    weight -= 0.01 * found[1] / 8
dist.destroy_process_group()
"""
"""A program for torchrun: data parallel gradient descent by hand. An optimizer would take longer to load."""


@pytest.fixture(autouse=True)
def _host(server: SshServer) -> Iterator[None]:
    """Add the host, and remove parts whose run was lost: the user of that machine would delete them."""
    add_host()
    yield
    for part in parts(server):
        shutil.rmtree(part)


def long_spec(tmp_path: Path, **training: object) -> RunSpec:
    """A run that goes on until it is stopped."""
    return over_hosts(make_spec(write_recipe(tmp_path, LONG_PYTORCH), epochs=FOREVER, **training))


def test_two_machines_follow_the_curve_of_one_device(server: SshServer, runs_root: Path) -> None:
    """With accumulation and a last batch that does not divide evenly."""
    spec = make_spec("digits_cnn", epochs=2, batch_size=100, accumulation=2)
    away = train(over_hosts(spec), runs_root)
    follows_the_curve_of(train(spec, runs_root), away, AWAY)
    assert len(away.losses()) == 2 * 15
    facts = away.run.facts
    assert facts.devices[AWAY]["label"] == "one · CPU 1"
    assert any("trusted network only" in each for each in facts.notices)
    assert parts(server) == []
    assert devices_of([AWAY])[1].id == AWAY


def test_paused_run_over_machines_resumes_as_if_it_had_not_been_paused(
    server: SshServer, runs_root: Path, tmp_path: Path
) -> None:
    """The checkpoint has the random states of both ranks, and reaches the other machine when the run is resumed."""
    spec = make_spec("digits_cnn", epochs=4, checkpoints={"unit": "never"})
    whole = train(over_hosts(spec), runs_root)
    paused = start(over_hosts(spec), runs_root).until_trained(2)
    paused.run.request("pause")
    paused.until(RunState.PAUSED)
    (folder,) = checkpoint.folders(paused.run.dir)
    assert {"random-0.pt", "random-1.pt", "model.pt"} <= {path.name for path in folder.iterdir()}
    assert parts(server) == []
    resumed = Followed(Run.resume(paused.run.dir)).until_over()
    assert resumed.states[-1] is RunState.FINISHED, resumed.run.facts
    assert resumed.losses() == pytest.approx(whole.losses(), rel=1e-6, abs=1e-7)


def test_stop_and_a_cut_connection(server: SshServer, runs_root: Path, tmp_path: Path) -> None:
    """A connection that is cut is made again, and no step is lost or recorded twice; then the run is stopped."""
    run = start(long_spec(tmp_path), runs_root).until_trained(50)
    for number, find in enumerate((server.sessions, server.agents), 1):
        find()[0].kill()
        wait_until(lambda: run.poll() and cuts(run) == number, what="the connection to be made again")  # noqa: B023
    run.until_trained(run.run.facts.step + 100)
    stop_with_every_step(run)
    assert parts(server) == []
    assert processes_there(server) == []


def test_worker_that_is_killed_on_the_other_machine_fails_the_run(
    server: SshServer, runs_root: Path, tmp_path: Path
) -> None:
    long = f"{LONG_PYTORCH}\nTABLE = {'x' * 300_000!r}  # longer than a pipe: a recipe travels in one request\n"
    spec = over_hosts(make_spec(write_recipe(tmp_path, long), epochs=FOREVER))
    run = start(spec, runs_root).until_trained(20)
    worker_there(server).send_signal(signal.SIGKILL)
    run.until_over()
    assert run.states[-1] is RunState.FAILED
    assert f"Worker 1 on {AWAY} was ended by SIGKILL" in str(run.run.facts.error)
    assert parts(server) == []


def test_supervisor_that_is_killed_on_the_other_machine_during_the_start_fails_the_run(
    server: SshServer, runs_root: Path, tmp_path: Path
) -> None:
    """No worker there has said why, and those here were only asked to end: the run must not count as finished."""
    run = start(long_spec(tmp_path), runs_root)
    found = wait_until(lambda: supervisors_there(server), 30, "the supervisor on the host to start")
    found[0].kill()
    run.until_over()
    assert run.states[-1] is RunState.FAILED, run.run.facts
    assert "The part of this run on one has ended. The run's supervisor" in str(run.run.facts.error)
    assert parts(server) == []


def test_machine_that_is_lost_ends_the_run_which_is_resumed_when_it_is_back(
    server: SshServer, runs_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(run_hosts.GRACE_VARIABLE, "2")
    spec = replace(long_spec(tmp_path), checkpoints=replace(long_spec(tmp_path).checkpoints, unit="steps", every=20))
    run = start(spec, runs_root).until_trained(60)
    with unreachable(server):
        run.until_over()
    assert run.states[-1] is RunState.FAILED
    assert "The run cannot go on without one" in str(run.run.facts.error)
    assert run.run.facts.releases[AWAY].verdict is Verdict.CANNOT_BE_JUDGED
    wait_until(lambda: not processes_there(server), what="the processes on the host to end by themselves")

    step = checkpoint.read(checkpoint.folders(run.run.dir)[0]).step
    resumed = Followed(Run.resume(run.run.dir)).until_trained(step + 20)
    resumed.run.request("stop")
    resumed.until_over()
    assert resumed.states[-1] is RunState.STOPPED
    assert parts(server) == [], "the part that was lost is removed, too"


def test_part_ends_by_itself_when_the_supervisor_of_its_run_is_killed(
    server: SshServer,
    runs_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The part says that its head was lost, is listed so on the host, and can be removed there."""
    monkeypatch.setenv(run_hosts.GRACE_VARIABLE, "1")
    run = start(long_spec(tmp_path), runs_root).until_trained(20)
    supervisor = run.run.facts.supervisor
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    wait_until(lambda: run.poll().state is RunState.LOST, what="the run to be lost")
    wait_until(lambda: not processes_there(server), what="the processes on the host to end")

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


def test_agent_that_is_stopped_is_replaced_and_ends(server: SshServer, runs_root: Path, tmp_path: Path) -> None:
    run = start(long_spec(tmp_path), runs_root).until_trained(20)
    (agent,) = server.agents()
    agent.suspend()
    wait_until(lambda: run.poll() and cuts(run) == 1, 40, "another agent to take the part over")
    wait_until(lambda: not agent.is_running(), what="the stopped agent to be continued and to end")
    run.until_trained(run.run.facts.step + 20)
    stop_with_every_step(run)
    assert parts(server) == []


def test_resume_ends_a_part_that_a_stopped_agent_still_holds(
    server: SshServer, runs_root: Path, tmp_path: Path
) -> None:
    spec = replace(long_spec(tmp_path), checkpoints=replace(long_spec(tmp_path).checkpoints, unit="steps", every=20))
    run = start(spec, runs_root).until_trained(60)
    (agent,) = server.agents()
    agent.suspend()
    worker_there(server).suspend()  # else it ends with the connection to the other rank
    supervisor = run.run.facts.supervisor
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    wait_until(lambda: run.poll().state is RunState.LOST, what="the run to be lost")

    resumed = Followed(Run.resume(run.run.dir))
    resumed.until_trained(run.run.facts.step + 20)
    assert any("An earlier part of this run was still running on one." in each for each in resumed.run.facts.notices)
    assert not agent.is_running()
    resumed.run.request("stop")
    resumed.until_over()
    assert resumed.states[-1] is RunState.STOPPED, resumed.run.facts
    assert parts(server) == []
    assert processes_there(server) == []


@pytest.mark.parametrize("strategy", ["fsdp", "pipeline"])
def test_divided_model_over_machines_is_paused_and_resumed_on_the_curve_of_one_device(
    server: SshServer, runs_root: Path, strategy: str
) -> None:
    """The files of the other rank reach the checkpoint here, and the checkpoint reaches the other machine."""
    spec = make_spec("digits_mlp", epochs=100, batch_size=512, checkpoints={"unit": "never"})
    alone = train(spec, runs_root)
    away = replace(over_hosts(spec), strategy=strategy, training=replace(spec.training, micro_batches=2))
    paused = start(away, runs_root).until_trained(1)
    paused.run.request("pause")
    paused.until(RunState.PAUSED)
    assert parts(server) == []
    resumed = Followed(Run.resume(paused.run.dir)).until_over()
    assert resumed.states[-1] is RunState.FINISHED, resumed.run.facts
    assert resumed.losses() == pytest.approx(alone.losses(), rel=1e-5, abs=1e-6)


def test_script_for_torchrun_over_machines_follows_the_curve_of_one_device(
    server: SshServer, runs_root: Path, tmp_path: Path
) -> None:
    """The ranks meet at a store of the run: no rank serves one, and none stays alone."""
    (tmp_path / "program.py").write_text(DESCENT)
    spec = script_spec(tmp_path / "program.py", cwd=tmp_path, launch="per-device")
    away = train(replace(spec, devices=("cpu:0", AWAY)), runs_root)
    assert away.states[-1] is RunState.FINISHED, (away.run.facts, away.run.log_end())
    weight, expected = 0.0, []
    for _ in range(20):
        expected.append(sum((weight * x - 3 * x) ** 2 for x in range(1, 9)) / 8)
        weight -= 0.01 * sum(2 * x * (weight * x - 3 * x) for x in range(1, 9)) / 8
    assert away.losses() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert away.run.log_end().startswith("agent store True")
    assert (away.run.dir / "log.1.txt").read_text() == away.run.log_end()
    assert any("trusted network only" in each for each in away.run.facts.notices)
    assert not any("never met" in each for each in away.run.facts.notices)
    assert parts(server) == []
