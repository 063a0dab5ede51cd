"""Strategies and scripts whose ranks listen, over two machines: who is where, with which addresses, and their ends.

The fake worker trains on both machines: about a second of processor time for each run.
"""

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.hosts.carrier import HostError
from core.hosts.host_list import Host
from core.hosts.parts.part_link import PartLink
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.paths import log_of_rank
from core.schema.spec import RunSpec
from tests.process.test_host_connections import HELLO
from tests.support.running import FOREVER, Followed, make_spec, source_spec, start, train, write_recipe
from tests.support.ssh_server import TRAINYARD, SshServer, add_host
from tests.support.two_hosts import AWAY, parts, processes_there
from tests.support.waiting import wait_until

NOTES = """
import os, sys

with open({notes!r} + "/new-" + str(os.getpid()), "w") as file:
    file.write(sys.argv[2])
os.replace(file.name, file.name.replace("new-", ""))

def model():
    pass

def train_data():
    return range(64)
"""
"""A recipe whose processes write down their assignments."""
MEETS = """\
import os
if False:
    import tensorflow as tf
    tf.distribute.MultiWorkerMirroredStrategy()
print(os.environ.get("TF_CONFIG"), flush=True)
print("step 1 loss 0.5", flush=True)
"""


@pytest.fixture(autouse=True)
def _host(server: SshServer, fake_python: Path) -> Iterator[None]:
    """Add the host, which trains with the fake worker. Nothing is left there."""
    add_host("one", f"env TRAINYARD_PYTHON_TENSORFLOW={fake_python} {TRAINYARD}")
    yield
    assert parts(server) == []
    assert processes_there(server) == []


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


def served(tmp_path: Path) -> RunSpec:
    """A run with a parameter server, and a worker on each machine."""
    recipe = write_recipe(tmp_path, NOTES.format(notes=str(tmp_path / "notes")))
    spec = replace(make_spec(recipe, epochs=FOREVER), framework="tensorflow", strategy="parameter_server")
    return replace(spec, devices=("cpu:0", AWAY), allow_open_ports=True)


def assignments(notes: Path, count: int) -> list[dict[str, Any]]:
    """Return the assignments of the processes by rank, when so many have written them down."""

    def written() -> list[Path]:
        return [each for each in notes.iterdir() if not each.name.startswith("new-")]

    wait_until(lambda: len(written()) >= count, "the processes of all ranks")
    return sorted((json.loads(each.read_text()) for each in written()), key=lambda each: int(each["rank"]))


@pytest.mark.slow
def test_chief_and_server_are_here_each_worker_is_where_its_device_is_and_all_end_with_the_chief(
    server: SshServer, runs_root: Path, tmp_path: Path, notes: Path
) -> None:
    run = start(served(tmp_path), runs_root).until_trained(5)
    found = assignments(notes, 4)
    assert [(each["role"], each["host"], each["own"], each["serves"]) for each in found] == [
        ("chief", 0, [], False), ("worker", 0, ["cpu:0"], True), ("worker", 1, ["cpu:1"], True), ("ps", 0, [], True),
    ]
    (addresses,) = {tuple(each["addresses"]) for each in found}
    assert len(set(addresses)) == 4
    assert {each["world_size"] for each in found} == {4}
    notice = next(each for each in run.run.facts.notices if "listen without a password" in each)
    assert all(address in notice for address in addresses)
    (part,) = parts(server)
    assert Followed(Run.attach(part)).until(RunState.RUNNING).run.facts.stalled is None
    assert run.pause().states[-1] is RunState.PAUSED, run.run.facts
    assert parts(server) == []
    run = Followed(Run.resume(run.run.dir)).until_trained(run.run.facts.step + 5)
    run.stop()
    assert run.states[-4:] == [RunState.RUNNING, RunState.STOPPING, RunState.RELEASING, RunState.STOPPED], run.run.facts
    assert run.run.facts.workers[2].exit_code == -signal.SIGTERM, "it was not asked for what it cannot hear"


@pytest.mark.slow
def test_processes_of_a_script_on_three_machines_find_each_other_by_tf_config(server, runs_root, tmp_path) -> None:
    add_host("two")
    spec = source_spec(tmp_path, MEETS, launch="per-device")
    run = train(replace(spec, devices=("cpu:0", AWAY, "two/cpu:0")), runs_root)
    assert run.states[-1] is RunState.FINISHED, run.run.facts
    found = [json.loads(log_of_rank(run.run.dir, rank).read_text().splitlines()[0]) for rank in range(3)]
    assert [each["task"] for each in found] == [{"type": "worker", "index": rank} for rank in range(3)]
    (workers,) = {tuple(each["cluster"]["worker"]) for each in found}
    assert len(set(workers)) == 3
    assert {rank: each.host for rank, each in run.run.facts.workers.items()} == {0: "", 1: "one", 2: "two"}
    assert any("trusted network only" in each for each in run.run.facts.notices)
    assert list(server.folder.glob("two/.local/share/trainyard/runs/2*")) == []


@pytest.mark.parametrize(
    ("ask", "answer", "sentence"),
    [
        (
            lambda link: link.reach("127.0.0.1", 9),
            '"answer": {"interface": "lo", "address": "10.0.0.1,10.0.0.2"}',
            "makes no sense. It names no network interface.",
        ),
        (lambda link: link.listen(2), '"item": {"ports": [22, 70000]}', "makes no sense. It names no free ports."),
        (lambda link: link.listen(2), '"item": {"ports": [5000, 5000]}', "makes no sense. It names no free ports."),
        (lambda link: link.listen(2), '"answer": null', "makes no sense. It names no free ports."),
        (lambda link: link.listen(2), '"error": "Too many open files."', "one says: Too many open files."),
    ],
    ids=["addresses", "no ports", "one port twice", "nothing", "an error"],
)
def test_answer_about_addresses_that_makes_no_sense_is_told(server, tmp_path, script, ask, answer, sentence) -> None:
    clock = 'for id in 1 2 3; do read line; echo "{\\"id\\": $id, \\"answer\\": {\\"time\\": 0}}"; done'
    command = script(f"echo '{HELLO}'; {clock}; read line; echo '{{\"id\": 4, {answer}}}'; exec cat >&2")
    link = PartLink(Host(name="one", address="one", command=command), tmp_path)
    link.meet()
    with pytest.raises(HostError) as caught:
        ask(link)
    link.close()
    assert sentence in str(caught.value)
