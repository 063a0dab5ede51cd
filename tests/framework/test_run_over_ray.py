"""Runs on a device here and one of a node of a real Ray cluster: one curve, pause and resume, cuts, and a lost node.

The cluster costs four seconds, each run starts PyTorch twice, cold. Needs Ray: pip install 'trainyard[ray]'.
"""

import contextlib
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from core.hosts import host_list, inquiry
from core.hosts.carrier import Failure
from core.hosts.host_list import Host
from core.hosts.parts import run_hosts
from core.launchers.local import interface_of
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema import checkpoint
from core.schema.event_kinds import Verdict
from core.schema.spec import RunSpec
from tests.support.ray_cluster import RayCluster
from tests.support.running import FOREVER, LONG_PYTORCH, Followed, make_spec, start, train, write_recipe
from tests.support.two_hosts import cuts, follows_the_curve_of, over_hosts, stop_with_every_step
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.e2e]
AWAY = "beta/cpu:1"


@pytest.fixture(autouse=True)
def _beta(cluster: RayCluster) -> Iterator[None]:
    """Add the node `beta`, and remove parts whose run was lost: the user of that machine would delete them."""
    add_host(cluster, "beta")
    yield
    wait_until(lambda: not processes_of_parts(cluster), "the processes on the nodes to end")
    for part in parts(cluster):
        shutil.rmtree(part)


def add_host(cluster: RayCluster, name: str) -> None:
    host_list.add(Host(name=name, address=f"ray:{cluster.address}/{name}", command=sys.executable))


def is_lost(name: str) -> bool:
    """Return whether a host is no node of its cluster any more."""
    host = host_list.load().find(name)
    assert host is not None
    (report,) = inquiry.ask([host], devices=False)
    return report.error is not None and report.error.failure is Failure.NO_NODE


def long_spec(tmp_path: Path, away: str = AWAY) -> RunSpec:
    """A run that goes on until it is stopped."""
    return over_hosts(make_spec(write_recipe(tmp_path, LONG_PYTORCH), epochs=FOREVER), away=away)


def parts(cluster: RayCluster) -> list[Path]:
    """Return the run directories of parts on the nodes, which share a home."""
    return list(cluster.folder.glob("home/.local/share/trainyard/runs/2*"))


def processes_of_parts(cluster: RayCluster) -> list[psutil.Process]:
    """Return the supervisors, guards and workers of parts on the nodes."""
    return [each for part in parts(cluster) for each in cluster.processes(part.name)]


def kill(processes: list[psutil.Process]) -> None:
    assert processes
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()


@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "pipeline", "multi_worker_mirrored"])
def test_strategy_follows_the_curve_of_one_device_over_a_pause(cluster, runs_root, strategy) -> None:
    """The files of the rank on the node reach the checkpoint here, and the checkpoint reaches the node.

    The recipe is an included one, which travels with the code.
    """
    framework = "tensorflow" if strategy == "multi_worker_mirrored" else "pytorch"
    spec = make_spec("digits_mlp", framework=framework, epochs=100, batch_size=512, checkpoints={"unit": "never"})
    alone = train(spec, runs_root)
    away = over_hosts(replace(spec, training=replace(spec.training, micro_batches=2)), strategy, AWAY)
    paused = start(away, runs_root)
    assert paused.pause().state is RunState.PAUSED, paused.run.facts
    assert paused.run.facts.step > 0
    assert parts(cluster) == []
    resumed = Followed(Run.resume(paused.run.dir)).until_over()
    assert resumed.states[-1] is RunState.FINISHED, resumed.run.facts
    if framework == "pytorch":
        follows_the_curve_of(alone, resumed, AWAY)
        interface = interface_of(cluster.address.partition(":")[0])
        notices = resumed.run.facts.notices
        assert any(f"exchange data over {interface} without encryption" in each for each in notices)
    else:
        assert resumed.losses() == pytest.approx(alone.losses(), rel=1e-4, abs=1e-6)


def test_part_outlives_driver_actor_and_agent_and_no_step_is_lost(cluster, runs_root, tmp_path) -> None:
    run = start(long_spec(tmp_path), runs_root).until_trained(50)
    for number, find in enumerate((cluster.drivers, cluster.actors, cluster.agents), 1):
        kill(find())
        wait_until(lambda: run.poll() and cuts(run) == number, "the connection to be made again")  # noqa: B023
    run.until_trained(run.run.facts.step + 100)
    stop_with_every_step(run)
    assert parts(cluster) == []


def test_node_that_is_lost_ends_the_run_which_is_resumed_when_it_is_back(
    cluster: RayCluster, runs_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processes of a machine whose Ray has ended outlive that only by the grace time."""
    monkeypatch.setenv(run_hosts.GRACE_VARIABLE, "3")
    raylet = cluster.add("gamma")
    add_host(cluster, "gamma")
    spec = long_spec(tmp_path, "gamma/cpu:1")
    spec = replace(spec, checkpoints=replace(spec.checkpoints, unit="steps", every=20))
    run = start(spec, runs_root).until_trained(60)
    cluster.kill(raylet)
    run.until_over()
    assert "The run cannot go on without gamma" in run.failure
    assert run.run.facts.releases["gamma/cpu:1"].verdict is Verdict.CANNOT_BE_JUDGED
    wait_until(lambda: not processes_of_parts(cluster), "the processes on the node to end by themselves")

    step = checkpoint.read(checkpoint.folders(run.run.dir)[0]).step
    wait_until(lambda: is_lost("gamma"), "Ray to miss the node")
    raylet = cluster.add("gamma")
    try:
        resumed = Followed(Run.resume(run.run.dir)).until_trained(step + 20)
        resumed.stop()
        assert resumed.states[-1] is RunState.STOPPED, resumed.run.facts
        assert parts(cluster) == [], "the part that was lost is removed, too"
    finally:
        cluster.kill(raylet)
