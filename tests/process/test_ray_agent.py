"""Runs on a node of a Ray cluster without Ray: the real actor, keeper, agent and parts behind a stand-in.

Each run costs about two seconds, a cut connection five more, and an actor half a second.
`tests/framework/test_run_over_ray.py` has the same with a real cluster.
"""

import contextlib
import os
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from core.hosts import host_list
from core.hosts.carrier import HostError
from core.hosts.connection import Connection
from core.hosts.host_list import Host
from core.hosts.parts.head import is_agent
from core.language import Message
from core.runs.facts import RunState
from core.schema.event_log import Log
from core.schema.spec import RunSpec
from tests.support.ray_stand_in import PEER, StandIn, running
from tests.support.running import FOREVER, LONG, Followed, make_spec, start, train, write_recipe
from tests.support.waiting import PATIENCE_S, wait_until

AWAY = "beta/cpu:1"
ADDRESS = "ray:10.0.0.1:6379/beta"


@pytest.fixture
def node(tmp_path: Path, fake_python: Path) -> Iterator[StandIn]:
    """A node whose host is `beta`. No part of a run and no code of ours is left there at the end."""
    with running(tmp_path / "node", fake_python) as node:
        host_list.add(Host(name="beta", address=ADDRESS, command=str(node.python)))
        yield node
        wait_until(lambda: not node.codes(), "the code to be removed")
        assert node.parts() == []


def over_hosts(spec: RunSpec) -> RunSpec:
    return replace(spec, devices=("cpu:0", AWAY), strategy="ddp")


def notices(run: Followed) -> list[str]:
    return [Message.read(event["text"]) for event in Log(run.run.dir).read() if event["kind"] == "notice"]


def words_of(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):  # it has ended
        return process.cmdline()
    return []


@pytest.mark.slow
def test_run_trains_on_a_node_and_keeps_its_device(node: StandIn, runs_root: Path) -> None:
    """The recipe is an included one, which travels with the code. Ranks meet where the driver says this machine is."""
    run = train(over_hosts(make_spec("digits_mlp", epochs=1)), runs_root)
    assert run.states[-1] is RunState.FINISHED, run.run.facts
    assert {rank: (each.devices, each.host, each.exit_code) for rank, each in run.run.facts.workers.items()} == {
        0: (("cpu:0",), "", 0),
        1: ((AWAY,), "beta", 0),
    }
    assert set(run.run.facts.releases) == {"cpu:0", AWAY}
    assert any("exchange data over lo without encryption" in each for each in notices(run))
    looked, kept = node.reserved()
    assert looked == "0 0", "to look at the node takes nothing from others"
    cores, gpus = kept.split()
    assert int(cores) > 0
    assert gpus == "0"


@pytest.mark.slow
def test_part_outlives_the_actor_and_its_device_may_go_to_others_then(node, runs_root, tmp_path) -> None:
    """Its code stays there for as long as it needs that, while the next connection brings its own."""
    run = start(over_hosts(make_spec(write_recipe(tmp_path, LONG), epochs=FOREVER)), runs_root).until_trained(50)
    (part,) = node.parts()
    (code,) = node.codes()
    node.give_to_others()
    node.kill_actors()
    back = "The connection to beta was cut for"
    wait_until(lambda: run.poll() and any(back in each for each in notices(run)), "the connection to be back")
    assert any("The devices of beta are no longer kept for this run alone" in each for each in notices(run))
    assert len(node.codes()) == 2
    assert code in node.codes()
    run.until_trained(run.run.facts.step + 100)
    run.stop()
    assert run.states[-1] is RunState.STOPPED, run.run.facts
    steps = run.run_series.metrics["loss"].steps
    assert steps.tolist() == list(range(1, len(steps) + 1))
    assert not part.exists()


@pytest.mark.slow
def test_device_that_others_have_keeps_a_run_from_starting(node: StandIn, runs_root: Path, tmp_path: Path) -> None:
    node.give_to_others()
    run = start(over_hosts(make_spec(write_recipe(tmp_path, LONG))), runs_root).until_over()
    assert f"Other programs of the Ray cluster use what the run needs of beta ({ADDRESS}): 1 CPU." in run.failure


def test_agent_has_the_environment_of_its_node(node: StandIn) -> None:
    host = host_list.load().hosts[0]
    with Connection(host) as beta:
        beta.wait(lambda: beta.hello is not None, PATIENCE_S)
        assert beta.ask("peer", PATIENCE_S)["address"] == PEER
        (code,) = node.codes()
        (agent,) = [
            each for each in psutil.process_iter() if words_of(each)[2:3] == [f"{code}/core/system/own_start.py"]
        ]
        assert is_agent(agent.pid), "so that the next agent continues it when it was stopped"
        there = agent.environ()
        assert there["HOME"] == str(node.folder / "home")
        set_by_ray = [name for name in there if name.startswith(("RAY_", "OMP_"))]
        assert set_by_ray == ["OMP_WAIT_POLICY"], "which tests/conftest.py sets"
        with pytest.raises(HostError, match="The Trainyard there cannot do this: examine"):
            beta.ask("examine", PATIENCE_S)


@pytest.mark.slow
def test_actor_that_is_killed_at_any_moment_of_its_start_leaves_nothing(node: StandIn) -> None:
    """The keeper makes the folder of the code only when it cannot be ended with the actor any more, and removes it."""
    chance = random.Random(os.environ.get("TRAINYARD_TEST_SEED", "1"))
    for _ in range(6):
        with Connection(host_list.load().hosts[0]) as beta:
            wait_until(node.actors, "the actor to start")
            moment = time.monotonic() + chance.uniform(0, 0.3)
            beta.wait(lambda: time.monotonic() > moment, PATIENCE_S)  # noqa: B023
            node.kill_actors()
            with pytest.raises(HostError):
                beta.wait(lambda: False, PATIENCE_S)
    code = str(node.folder / "tmp")
    wait_until(
        lambda: not [each for each in psutil.process_iter() if code in " ".join(words_of(each))],
        "the keepers and agents to end",
    )
