"""Nodes of a real Ray cluster as hosts: commands, connections, and what is left when something dies.

The cluster of two nodes costs four seconds, each connection two, the whole module about a minute.
"""

import json
import os
import random
import re
import shlex
import socket
import sys
import time
from pathlib import Path

import psutil
import pytest

from core.devices.device import Device
from core.hosts import connection, host_list, inquiry, ray_carrier
from core.hosts.carrier import Failure, HostError
from core.hosts.connection import Connection
from core.hosts.host_list import Host
from tests.support.commands import call
from tests.support.ray_cluster import CORES, rival_of, run_cluster, said_by
from tests.support.waiting import PATIENCE_S, wait_until

PAGE = Path(__file__).parents[2] / "docs" / "hosts.md"

pytestmark = pytest.mark.soak  # more than three minutes, and how soon Ray ends what was killed differs


def patient_driver(attach_s=PATIENCE_S, reserve_s=PATIENCE_S):
    """Return what starts a driver that waits this long for the cluster, and for devices that others use."""
    return "-c", (
        "import sys, core.hosts.ray.driver as driver; del sys.path[0]; "
        f"driver.ATTACH_S = {attach_s}; driver.RESERVE_S = {reserve_s}; driver.main(sys.argv[1:])"
    )


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """The limits of the product are for users; here Ray may take as long as it likes."""
    for module, limit in ((connection, "HELLO_S"), (connection, "ANSWER_S"), (ray_carrier, "LIST_S")):
        monkeypatch.setattr(module, limit, PATIENCE_S)
    monkeypatch.setattr(ray_carrier, "DRIVER", patient_driver())


def node(cluster, name="beta", python=sys.executable):
    return Host(name=name, address=f"ray:{cluster.address}/{name}", command=str(python))


def connected(host):
    opened = Connection(host)
    opened.wait(lambda: opened.hello is not None, PATIENCE_S)
    return opened


def why_not(host):
    """Return why a host cannot be asked."""
    (report,) = inquiry.ask([host], devices=False)
    assert report.error is not None, report
    return report.error


# -- commands ----------------------------------------------------------------------------------------


def test_nodes_are_added_listed_with_their_devices_and_removed(cluster, capsys, runs_root, monkeypatch):
    code, out, err = call(capsys, "hosts", "add", f"ray:{cluster.address}")
    assert (code, err) == (0, "")
    assert [re.sub(r"Trainyard .* s\. ", "", line) for line in out.splitlines()] == [
        f"{name} has been added: reachable, Its devices: {name}/cpu:0 and {name}/cpu:1" for name in ("alpha", "beta")
    ]
    code, out, err = call(capsys, "devices", "--json", "--runs", runs_root)
    rows = json.loads(out)
    there = [each for each in rows if "host" in each]
    assert [each["id"] for each in there] == [f"{host}/cpu:{n}" for host in ("alpha", "beta") for n in range(CORES)]
    assert all(set(each) - {"host"} == set(rows[0]) and each["memory_total_bytes"] for each in there)
    code, out, err = call(capsys, "hosts", "--json")
    rows = json.loads(out)
    assert [(each["name"], each["state"], each["problem"]) for each in rows] == [
        ("alpha", "reachable", None), ("beta", "reachable", None),
    ]
    assert {each["runs"] for each in rows} == {f"{cluster.folder}/home/.local/share/trainyard/runs"}
    assert {each["command"] for each in rows} == {sys.executable}

    code, out, err = call(capsys, "hosts", "add", f"ray:{cluster.address}")
    assert (code, err.split(":")[0], err.endswith("are in the list already. See them: trainyard hosts\n")) == (
        2, "trainyard", True,
    )
    code, out, err = call(capsys, "hosts", "remove", "beta")
    assert out == f"beta has been removed from the list. Nothing was changed on ray:{cluster.address}/beta.\n"
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    code, out, err = call(capsys, "hosts", "add", "ray:auto/beta", "--name", "second", "--json")
    assert (code, json.loads(out)["name"]) == (0, "second")


def test_nodes_without_names_are_told_apart_on_one_machine(cluster, capsys):
    raylets = [cluster.add(), cluster.add()]
    try:
        code, out, err = call(capsys, "hosts", "add", f"ray:{cluster.address}", "--json")
        assert (code, err) == (0, "")
        added = {each["name"]: each["address"] for each in json.loads(out)}
        machine = socket.gethostname().partition(".")[0]
        unnamed = {name: address for name, address in added.items() if name not in {"alpha", "beta"}}
        assert len(unnamed) == 2
        for name, address in unnamed.items():
            assert re.fullmatch(rf"{re.escape(machine)}-[0-9a-f]{{6}}", name)
            assert address.startswith(f"ray:{cluster.address}/{name.rpartition('-')[2]}")
    finally:
        for each in raylets:
            cluster.kill(each)
    name, address = next(iter(unnamed.items()))
    wait_until(lambda: why_not(host_list.load().find(name)).failure is Failure.NO_NODE, "Ray to miss the node")
    assert f"{name} ({address}) is not in the Ray cluster now." in str(why_not(host_list.load().find(name)))


def test_documented_commands_work(cluster, capsys, monkeypatch):
    """The page's path is that of its reader, and `auto` leads to RAY_ADDRESS; all else is as it stands there."""
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    (block,) = re.findall(r"^```\n(trainyard hosts add ray:.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    lines = [shlex.split(line, comments=True)[1:] for line in block.splitlines()]
    assert len(lines) > 2
    for words in lines:
        known = {"head.example.org:6379": cluster.address, "/opt/ray/bin/python": sys.executable}
        own = [known.get(word, word).replace("head.example.org:6379", cluster.address) for word in words]
        code, _, err = call(capsys, *own)
        assert (code, err) == (0, ""), words


# -- connections -------------------------------------------------------------------------------------


def test_agent_has_the_settings_of_its_node_and_not_those_of_the_workers_of_ray(cluster):
    (raylet,) = cluster.raylets("beta")
    with connected(node(cluster)):
        agent, *_ = [each for each in cluster.agents() if "--stdio" in each.cmdline()]
        there = agent.environ()
        assert there["HOME"] == str(cluster.folder / "home")
        assert not [name for name in there if name.startswith(("RAY_", "OMP_"))]
        assert there.get("CUDA_VISIBLE_DEVICES") is None
        if os.geteuid() == 0:  # others cannot take back the priority that Ray takes from its workers
            assert agent.nice() == raylet.nice()
        scores = [Path(f"/proc/{each.pid}/oom_score_adj").read_text() for each in (agent, raylet)]
        assert scores[0] == scores[1]
        assert [each for each in agent.net_connections() if each.status == psutil.CONN_LISTEN] == []


def test_large_answers_and_requests_pass_unchanged(cluster):
    """A question fills the pipe of a connection, of which the answer has more."""
    with connected(node(cluster)) as beta:
        for size in (1_000, 60_000):
            answer = beta.request("x" * size)
            beta.wait(lambda answer=answer: answer.done, PATIENCE_S)
            assert answer.error == f"The Trainyard there cannot do this: {'x' * size}."


@pytest.mark.parametrize("what", ["driver", "actor", "agent"])
def test_connection_that_is_cut_is_told_and_nothing_is_left(cluster, what):
    with connected(node(cluster)) as beta:
        stream = beta.request("readings", period_s=0.1)
        beta.wait(lambda: stream.items, PATIENCE_S)
        killed = {"driver": cluster.drivers, "actor": cluster.actors, "agent": cluster.agents}[what]()
        for each in killed:
            each.kill()
        assert killed
        with pytest.raises(HostError, match=r"beta \(ray:.*\) was cut") as cut:
            beta.wait(lambda: False, PATIENCE_S)
        assert cut.value.failure is Failure.CUT


def test_code_of_a_keeper_that_was_killed_is_removed_by_the_next(cluster):
    with connected(node(cluster)) as beta:
        (folder,) = (cluster.folder / "tmp").glob("trainyard-ray-*")
        for each in cluster.processes(str(folder)):
            each.kill()
        with pytest.raises(HostError, match="was cut"):
            beta.wait(lambda: False, PATIENCE_S)
    assert folder.exists()
    os.utime(folder, (0, 0))
    with connected(node(cluster)):
        wait_until(lambda: not folder.exists(), "the folder to be removed")


@pytest.mark.parametrize("seed", range(2))
def test_driver_or_actor_that_is_killed_at_any_moment_leaves_nothing(cluster, seed):
    """Before the actor's start, it is the driver."""
    chance = random.Random(seed)
    with Connection(node(cluster, chance.choice(["alpha", "beta"]))) as there:
        moment = time.monotonic() + chance.uniform(0.2, 2.5)
        there.wait(lambda: time.monotonic() > moment, PATIENCE_S)
        for each in chance.choice([cluster.drivers, cluster.actors])() or cluster.drivers():
            each.kill()
        with pytest.raises(HostError) as cut:
            there.wait(lambda: False, PATIENCE_S)
        assert cut.value.failure in {Failure.CUT, Failure.NO_AGENT}


@pytest.mark.parametrize("moment", ["connected", "starting"])
def test_node_that_is_lost_is_told_and_nothing_is_left(cluster, moment):
    raylet = cluster.add(moment)  # a name of its own: Ray takes a while to miss the node of the other test
    with Connection(node(cluster, moment)) as gamma:
        if moment == "connected":
            gamma.wait(lambda: gamma.hello is not None, PATIENCE_S)
        else:
            gamma.wait(cluster.drivers, PATIENCE_S)
        cluster.kill(raylet)
        with pytest.raises(HostError) as lost:
            gamma.wait(lambda: False, PATIENCE_S)
    expected = {Failure.CUT} if moment == "connected" else {Failure.CUT, Failure.NO_AGENT, Failure.NO_NODE}
    assert lost.value.failure in expected, str(lost.value)
    assert f"{moment} (ray:" in str(lost.value)


def test_command_that_is_interrupted_leaves_nothing(cluster, monkeypatch):
    """The command ends although its nodes do not answer."""
    host_list.add(node(cluster))
    monkeypatch.setattr(connection, "HELLO_S", float("inf"))
    with inquiry.Inquiry(host_list.load().hosts, devices=False) as asked:
        for each in wait_until(cluster.drivers, "the driver to start"):
            each.suspend()
    (report,) = asked.reports()
    assert report.hello is None


# -- other users of the cluster ----------------------------------------------------------------------

CPUS = [Device(id=f"cpu:{n}", kind="cpu", label=f"CPU {n}", name="", cores=(n,)) for n in range(CORES)]


def test_devices_of_a_run_are_kept_from_other_users_until_its_connection_ends(cluster):
    with Connection(node(cluster), CPUS) as beta:
        beta.wait(lambda: beta.hello is not None, PATIENCE_S)
        with rival_of(cluster, 1, 1) as rival:
            assert said_by(rival) == "waits"
            for each in cluster.drivers():  # however it ends
                each.kill()
            assert said_by(rival) == "has it"
            with pytest.raises(HostError):
                beta.wait(lambda: False, PATIENCE_S)
            rival.stdin.close()


def test_devices_that_another_user_has_are_told(cluster, monkeypatch):
    with rival_of(cluster, 1, PATIENCE_S) as rival:
        assert said_by(rival) == "has it"
        monkeypatch.setattr(ray_carrier, "DRIVER", patient_driver(reserve_s=1.0))
        with Connection(node(cluster), CPUS) as beta, pytest.raises(HostError) as busy:
            beta.wait(lambda: beta.hello is not None, PATIENCE_S)
        with connected(node(cluster)) as looking:
            assert looking.ask("clock", PATIENCE_S), "looking needs none of them"
        rival.stdin.close()
    assert busy.value.failure is Failure.BUSY
    assert "Other programs of the Ray cluster use what the run needs of beta" in str(busy.value)
    assert "2 CPU" in str(busy.value)


# -- bad input ---------------------------------------------------------------------------------------


def test_address_that_leads_nowhere_is_told(cluster, capsys):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    for address, sentence in {
        f"ray:127.0.0.1:{port}": f"No Ray cluster answers at 127.0.0.1:{port}. Check that it runs",
        "ray:nowhere.invalid:6379": "No machine is known by the name in ray:nowhere.invalid:6379.",
        f"ray:{cluster.address}/nobody": r"nobody (ray:",
    }.items():
        code, out, err = call(capsys, "hosts", "add", address)
        assert (code, out) == (2, "")
        assert sentence in err
        assert len(err.splitlines()) == 1
    assert "is not in the Ray cluster now." in err
    assert "Its nodes now: alpha, beta" in err
    assert host_list.load().hosts == ()


def test_port_that_is_no_cluster_is_told(cluster, monkeypatch):
    """What listens there never answers."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr(ray_carrier, "DRIVER", patient_driver(attach_s=1.0))
        error = why_not(Host(name="x", address=f"ray:{address}/x", command=sys.executable))
    assert (error.failure, str(error)) == (Failure.NO_ANSWER, str(error))
    assert f"What listens at {address} has not answered as a Ray cluster." in str(error)


def test_cluster_that_is_nowhere_is_not_started(cluster, capsys, monkeypatch, tmp_path):
    """`auto` is what RAY_ADDRESS names; where it asks Ray to start a cluster, none is started.

    A cluster that was started would have its files in RAY_TMPDIR.
    """
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    for named in ("local", "ray://127.0.0.1:10001"):
        monkeypatch.setenv("RAY_ADDRESS", named)
        code, out, err = call(capsys, "hosts", "add", "ray:auto")
        assert (code, out) == (2, "")
        assert "none is named by RAY_ADDRESS as HOST:PORT. Start it or join it (ray start), or give its" in err
        assert f"RAY_ADDRESS={named}" in err
        assert not list(tmp_path.iterdir())


@pytest.fixture
def python_that(tmp_path):
    """A function that makes a Python which runs a line of code before its program, and returns its path."""

    def make(line, options=""):
        (tmp_path / "first").mkdir()
        (tmp_path / "first" / "sitecustomize.py").write_text(line)
        path = tmp_path / "python"
        folders = f"{tmp_path / 'first'}:{Path(__file__).parents[2]}"
        path.write_text(f'#!/bin/sh\nPYTHONPATH={folders} exec {sys.executable} {options} "$@"\n')
        path.chmod(0o755)
        return str(path)

    return make


def test_python_without_ray_is_told(cluster, capsys, python_that):
    python = python_that("", "-S")
    code, out, err = call(capsys, "hosts", "add", f"ray:{cluster.address}", "--python", python)
    assert (code, out) == (2, "")
    assert err == (
        f"trainyard: Ray is not installed in {python}. Install it there (pip install 'trainyard[ray]'), or name the "
        f"Python that the cluster uses: trainyard hosts add ray:{cluster.address} --python /PATH/TO/python\n"
    )


def test_other_version_of_ray_is_told(cluster, capsys, python_that):
    python = python_that("import ray; ray.__version__ = '1.0.0'")
    code, out, err = call(capsys, "hosts", "add", f"ray:{cluster.address}", "--python", python)
    assert (code, out) == (2, "")
    assert (
        f"{python} does not fit the Ray cluster {cluster.address}: Ray and Python must be of the same versions." in err
    )
    assert "Ray: 1.0.0" in err


@pytest.mark.slow
def test_cluster_that_asks_for_a_token(capsys, monkeypatch):
    """Costs fifteen seconds: a cluster of its own, and a wait for one that does not answer programs without a token."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/nowhere")
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef0123456789abcdef"}
    running = run_cluster(token, ("alpha",))
    cluster = next(running)
    refused = {
        "nothing": {"RAY_AUTH_MODE": "disabled"}, "no token": {"RAY_AUTH_MODE": "token"},
        "another token": {**token, "RAY_AUTH_TOKEN": "f" * 32},
    }
    try:
        for what, variables in refused.items():
            with monkeypatch.context() as patch:
                patch.setattr(ray_carrier, "DRIVER", patient_driver(attach_s=5.0))
                for name, value in variables.items():
                    patch.setenv(name, value)
                code, out, err = call(capsys, "hosts", "add", f"ray:{cluster.address}")
            assert (code, out) == (2, ""), what
            assert cluster.address in err, (what, err)
            assert "token" in err, (what, err)
            assert "RAY_AUTH_TOKEN or" in err, (what, err)
        for name, value in token.items():
            monkeypatch.setenv(name, value)
        code, out, err = call(capsys, "hosts", "add", f"ray:{cluster.address}")
        assert (code, err) == (0, "")
    finally:
        running.close()
