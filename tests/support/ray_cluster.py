"""A real Ray cluster on this machine, with two nodes. It is a process of its own, so that tests do not load Ray.

Other clusters of the machine are not seen: its processes are known by its folder and its address.

As a program it has the cluster: `python -m tests.support.ray_cluster NAME...`. It prints the address, then answers each
line of its input with one of JSON: `add` or `add NAME` adds a node, `kill PID` kills its raylet; the end of the input
ends the cluster.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).parents[2]
SMALL = {"num_cpus": 2, "object_store_memory": 80 * 1024 * 1024}
CORES = 2
"""Devices of each node, whatever the machine has."""
KEPT = ("PATH", "LANG", "VIRTUAL_ENV")
"""Variables of the tests that the nodes have, too."""
RIVAL = """
import logging, ray, sys
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.CRITICAL)
(node,) = [each["NodeID"] for each in ray.nodes() if each["NodeName"] == "beta"]
@ray.remote(num_cpus=int(sys.argv[2]), scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
class Rival:
    def work(self):
        return "has it"
rival = Rival.remote()
done, _ = ray.wait([rival.work.remote()], timeout=float(sys.argv[3]))
print("has it" if done else "waits", flush=True)
print(ray.get(rival.work.remote()), flush=True)
sys.stdin.read()
"""
"""Another user of the cluster, who wants CPUs of beta."""


@dataclass(frozen=True)
class RayCluster:
    """A cluster that runs. Its nodes are `alpha`, the head, and `beta`."""

    folder: Path
    """Its files; `tmp` has the temporary files of its nodes, `home` is the home of their user."""
    address: str
    process: subprocess.Popen[str]

    def add(self, name: str = "") -> int:
        """Add a node, and return the process id of its raylet, without which it is no node any more."""
        return self._do(f"add {name}")

    def kill(self, raylet: int) -> None:
        """Kill a raylet. Its workers live on until they notice that it is gone."""
        self._do(f"kill {raylet}")

    def _do(self, line: str) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return int(json.loads(self.process.stdout.readline())["raylet"])

    def processes(self, *words: str) -> list[psutil.Process]:
        """Return the processes with all these words in their command lines, of the cluster and what it has started."""
        return [each for each in psutil.process_iter() if all(word in _title(each) for word in words)]

    def agents(self) -> list[psutil.Process]:
        """Return the agents on all nodes."""
        return self.processes("agent --stdio", str(self.folder / "tmp" / "trainyard-ray-"))

    def raylets(self, name: str = "") -> list[psutil.Process]:
        """Return the raylets of all nodes, or of the node of this name."""
        return self.processes("raylet/raylet", str(self.folder), f"--node-name={name}")

    def actors(self) -> list[psutil.Process]:
        """Return the actors on all nodes. Ray overwrites their command lines, but they write to a log in the folder."""
        named = [each for each in psutil.process_iter() if _title(each).startswith("ray::AgentActor")]
        return [each for each in named if _has_open(each, self.folder)]

    def drivers(self) -> list[psutil.Process]:
        """Return the drivers of the cluster, also those of supervisors."""
        own = self.processes("core.hosts.ray.driver", self.address)
        children = [each for each in psutil.Process().children() if "core.hosts.ray.driver" in _title(each)]
        return list({*own, *children})

    def leftovers(self) -> list[object]:
        """Return what connections have left behind."""
        code = "trainyard-ray-"
        folders = list((self.folder / "tmp").glob(f"{code}*"))
        return [*self.drivers(), *self.processes(str(self.folder / "tmp" / code)), *self.actors(), *folders]


def _has_open(process: psutil.Process, folder: Path) -> bool:
    try:
        return any(Path(each.path).is_relative_to(folder) for each in process.open_files())
    except psutil.Error:  # it has ended
        return False


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it has ended
        return ""


def rival_of(cluster: RayCluster, cores: int, wait_s: float) -> subprocess.Popen[str]:
    """Start another user of the cluster, who says whether this many CPUs of beta are given within this time."""
    return subprocess.Popen(
        [sys.executable, "-c", RIVAL, cluster.address, str(cores), str(wait_s)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )


def said_by(rival: subprocess.Popen[str]) -> str:
    """Return the next thing that a user of the cluster says, among lines of Ray about nodes that are gone."""
    assert rival.stdout is not None
    return next(line.strip() for line in rival.stdout if line in {"has it\n", "waits\n"})


def run_cluster(extra: Mapping[str, str], names: tuple[str, ...] = ("alpha", "beta")) -> Iterator[RayCluster]:
    """Run a cluster until the generator is closed, with more variables. Skips the test without Ray.

    Costs four seconds: three for the first node, one for each other.
    """
    if importlib.util.find_spec("ray") is None:
        pytest.skip("needs Ray: pip install 'trainyard[ray]'")
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # the paths of sockets are short
    for name in ("home", "tmp"):
        (folder / name).mkdir()
    environment = {
        **{name: os.environ[name] for name in KEPT if name in os.environ},
        "HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"), "RAY_TMPDIR": str(folder),
        "TRAINYARD_CPU_DEVICES": str(CORES), "RAY_USAGE_STATS_ENABLED": "0", **extra,
    }
    command = [sys.executable, "-m", "tests.support.ray_cluster", *names]
    with (
        (folder / "log.txt").open("w") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                         cwd=ROOT, env=environment) as process,
    ):
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, (folder / "log.txt").read_text()
        cluster = RayCluster(folder, address, process)
        try:
            yield cluster
        finally:
            process.communicate(timeout=PATIENCE_S)
            _clear(cluster)


@pytest.fixture(scope="module")
def running_cluster() -> Iterator[RayCluster]:
    """A cluster without a token."""
    yield from run_cluster({"RAY_AUTH_MODE": "disabled"})


@pytest.fixture
def cluster(running_cluster: RayCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[RayCluster]:
    """The cluster. No driver, actor, agent or file of one is left at the end."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)  # no test finds another cluster by itself
    yield running_cluster
    wait_until(lambda: not running_cluster.leftovers(), "what the test has started there to end")


def _clear(cluster: RayCluster) -> None:
    """Wait for the end of all processes, and remove the files."""
    folder = cluster.folder
    try:
        wait_until(lambda: not cluster.processes(str(folder)), "the processes of the cluster to end")
    finally:
        for each in cluster.processes(str(folder)):
            each.kill()
        shutil.rmtree(folder)


def main(names: list[str]) -> None:
    """Have a cluster with nodes of these names, until the end of the input."""
    from ray.cluster_utils import Cluster

    first, *others = names
    cluster = Cluster(initialize_head=True, head_node_args={**SMALL, "node_name": first, "include_dashboard": False})
    for name in others:
        cluster.add_node(**SMALL, node_name=name)
    print(cluster.address, flush=True)
    raylets = {}
    for line in sys.stdin:
        what, *given = line.split()
        if what == "kill":
            pid = int(given[0])
            raylets[pid].kill()
            raylets[pid].wait()  # a zombie would pass for a raylet that lives
        else:
            node = cluster.add_node(**SMALL, **({"node_name": given[0]} if given else {}))
            raylet = node.all_processes["raylet"][0].process
            pid = raylet.pid
            raylets[pid] = raylet
        print(json.dumps({"raylet": pid}), flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
