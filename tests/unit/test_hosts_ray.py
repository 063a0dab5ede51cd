"""Addresses and names of nodes of Ray clusters, what the driver's reports mean, and the code that travels."""

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from core.devices.device import Device
from core.hosts.carrier import Failure, HostError
from core.hosts.host_list import Host
from core.hosts.ray import driver, node, reports
from core.hosts.ray.reports import PEER
from core.hosts.ray_carrier import ROWS, RayCarrier, hosts_of, sources

BETA = Host(name="beta", address="ray:10.0.0.1:6379/beta", command="/opt/ray/bin/python")


@pytest.mark.parametrize(
    "address",
    ["ray:auto", "ray:head:6379", "ray:10.0.0.1:6379", "ray:[fe80::1]:6379", "ray:auto/alpha", "ray:head:6379/10.0.0.7",
     "ray:a.b.c:1/" + "3" * 56, "ray:head:6379/a_b-c@d"],
)
def test_address_of_a_cluster_or_node_is_accepted(address):
    assert isinstance(Host(name="x", address=address, command="python").carrier, RayCarrier)


@pytest.mark.parametrize(
    "address",
    ["ray:", "ray:head", "ray://head:10001", "ray:head:6379/a/b", "ray:head:6379/-x",
     "ray:-head:6379", "ray:head:6379 x", "ray:head:port", "ray:" + "a" * 300 + ":1", "ray:auto\n", "ray:local"],
)
def test_address_that_is_none_of_a_cluster_is_refused(address):
    with pytest.raises(ValueError, match=r"is no address of a Ray cluster\. Give ray:auto"):
        Host(name="x", address=address, command="python")


ONE, TWO = "a1" * 28, "b2" * 28


@pytest.mark.parametrize(
    ("rows", "hosts"),
    [
        ([(ONE, "alpha.lab", "10.0.0.1", "one"), (TWO, "beta", "10.0.0.1", "one")],
         {"alpha": "ray:head:6379/alpha.lab", "beta": "ray:head:6379/beta"}),  # names that users gave them
        ([(ONE, "10.0.0.1", "10.0.0.1", "one.lab"), (TWO, "10.0.0.2", "10.0.0.2", "two")],
         {"one": "ray:head:6379/10.0.0.1", "two": "ray:head:6379/10.0.0.2"}),  # those of their machines
        ([(ONE, "10.0.0.1", "10.0.0.1", "")], {"10.0.0.1": "ray:head:6379/10.0.0.1"}),
        ([(ONE, "10.0.0.1", "10.0.0.1", "one"), (TWO, "10.0.0.1", "10.0.0.1", "one")],
         {"one-a1a1a1": f"ray:head:6379/{ONE}", "one-b2b2b2": f"ray:head:6379/{TWO}"}),
        # one name for two nodes leads to neither
        ([(ONE, "gpu", "10.0.0.1", "one"), (TWO, "gpu", "10.0.0.2", "two")],
         {"one": f"ray:head:6379/{ONE}", "two": f"ray:head:6379/{TWO}"}),
    ],
)
def test_nodes_have_names_and_addresses_that_tell_them_apart(rows, hosts):
    nodes = [dict(zip(("id", "name", "ip", "machine"), row, strict=True)) for row in rows]
    assert hosts_of("head:6379", nodes) == hosts


def test_what_is_reserved_is_what_the_node_has_of_it():
    """All GPUs, since Ray cannot be told which; and of what Ray has none of it gives none to others."""
    cpu = Device(id="cpu:0", kind="cpu", label="CPU 0", name="", cores=(0, 1, 2))
    gpu = Device(id="GPU-8a56", kind="nvidia", label="GPU 0", name="")
    total = {"CPU": 2.0, "GPU": 4.0, "memory": 1e9}

    def reserved(devices: list[Device], total: dict[str, float]) -> dict[str, float]:
        cores, gpus = BETA.carrier.command_line(devices)[6:8]
        return driver.needed(total, int(cores), uses_gpus=gpus == "1")

    assert reserved([cpu], total) == {"CPU": 2}
    assert reserved([gpu], total) == {"GPU": 4}
    assert reserved([cpu, gpu], {"CPU": 8.0}) == {"CPU": 3}
    assert reserved([], total) == {}


def test_report_of_the_driver_is_found_in_what_ray_writes():
    said = reports.written(reports.Report(why="lost", line="The actor died\x1b[2J."))
    errors = f"(raylet) something\n{said}[2026-11-24 E 12] core_worker.cc: more\n"
    assert reports.find(errors) == reports.Report(why="lost", line="The actor died\x1b[2J.")
    error = BETA.carrier.explain_cut(errors)
    assert error.failure is Failure.CUT
    assert str(error).startswith("The connection to beta (ray:10.0.0.1:6379/beta) was cut: the node left")
    assert str(error).isprintable()
    for nonsense in ("", "trainyard-ray: {", "trainyard-ray: []", 'trainyard-ray: {"what": 1}'):
        assert reports.find(nonsense) is None
    assert len(reports.written(reports.Report(why="ray", line="x" * 100_000))) < 5000


@pytest.mark.parametrize("why", ROWS)
def test_each_report_is_a_sentence_that_names_host_or_cluster(why):
    report = reports.Report(why=why, line="said so", cluster="10.0.0.1:6379", nodes="alpha")
    error = BETA.carrier.explain_start(3, reports.written(report), "")
    assert error.failure is ROWS[why].failure
    assert "{" not in str(error)
    assert any(each in str(error) for each in ("10.0.0.1:6379", "RAY_ADDRESS", BETA.command))


def test_end_without_a_report_is_explained():
    assert "ended by a signal" in str(BETA.carrier.explain_start(-9, "", ""))
    error = BETA.carrier.explain_start(0, "Traceback\nImportError: cannot import name 'x'\n", "")
    assert (error.failure, str(error).endswith("It wrote: ImportError: cannot import name 'x'")) == (
        Failure.NO_AGENT,
        True,
    )
    assert "was cut, or Trainyard was ended there" in str(BETA.carrier.explain_cut("noise"))


MISMATCH = """\
Version mismatch: The cluster was started with:
    Ray: 2.60.0
    Python: 3.11.7
This process on node 10.0.0.1 was started with:
    Ray: 2.52.0
    Python: 3.11.9
"""


@pytest.mark.parametrize(
    ("said", "why"),
    [(MISMATCH, "version"), ("Token authentication is enabled but no authentication token was found", "token"),
     ("InvalidAuthToken: Authentication token is missing or incorrect", "token"),
     ("Can't find a node to connect to on this host", "not-in-the-cluster"), ("Something else", "ray")],
)
def test_refusal_of_a_cluster_is_understood(said, why):
    """What Ray 2.60 says."""
    error = ConnectionError("Failed to connect to Ray cluster at 10.0.0.1:6379")
    error.__cause__ = RuntimeError(said)
    assert driver.refusal(error, "10.0.0.1:6379").why == why


def test_driver_starts_where_python_searches_no_working_folder(monkeypatch):
    """The Python of the system knows nothing of this folder."""
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    found = RayCarrier("ray:127.0.0.1:1", command=str(Path(sys.executable).resolve()))
    with pytest.raises(HostError) as caught:
        found.find()
    assert caught.value.failure in {Failure.NO_RAY, Failure.CLOSED_PORT}


def test_code_that_travels_is_enough_for_an_agent_without_our_packages(tmp_path):
    """In a Python without site packages: no numpy, no orjson."""
    code = driver.packed(sources(), "9.8.7")
    assert len(code) < 3_000_000
    zipfile.ZipFile(io.BytesIO(code)).extractall(tmp_path)
    assert {each.name for each in (tmp_path / "resources").iterdir()} == driver.OF_RESOURCES, "no pictures and themes"
    python, *words = node.agent_command(str(tmp_path))
    with subprocess.Popen(
        [python, "-I", "-S", *words], env={"HOME": str(tmp_path), PEER: "10.0.0.9"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as agent:
        agent.stdin.write('{"id": 1, "do": "devices"}\n')
        agent.stdin.flush()
        _, hello, answer = (json.loads(agent.stdout.readline().strip() or "null") for _ in range(3))
        _, errors = agent.communicate()  # at the end of its input it waits for no answer that is not ready
    assert (agent.returncode, errors, hello["version"]) == (0, "", "9.8.7")
    assert {each["id"] for each in answer["answer"]["devices"]} >= {"cpu:0"}
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import core.supervisor.__main__, core.supervisor.guard; "
        "from core.catalog import recipes; print(*(recipes.find(name, 'pytorch').path for name in sys.argv[2:]))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, tmp_path, "digits_cnn", "char_transformer"], check=False,
        capture_output=True, text=True, env={"HOME": str(tmp_path)},
    )
    folder = tmp_path / "resources" / "recipes" / "pytorch"
    assert (done.stdout, done.stderr) == (f"{folder}/digits_cnn.py {folder}/char_transformer.py\n", "")


def test_environment_is_that_of_the_raylet(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = node.environment(os.getpid())
    assert "OMP_NUM_THREADS" not in found, "set after the start of this process"
    assert found["PATH"]
    assert not [name for name in found if name.startswith("RAY_")]
