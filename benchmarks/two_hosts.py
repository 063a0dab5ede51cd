"""The same `ddp` on two hosts: under the panel through a real ssh server on this machine, and by torchrun, by hand."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.hand import SCRIPTS, TIMEOUT_S, Result, read_result
from benchmarks.panel import under_the_panel
from core.catalog import recipes
from core.devices.cpu import cpu_devices
from core.hosts.inquiry import devices_of
from core.launchers.local import HOST, free_addresses
from core.system.folders import CONFIG_VARIABLE
from tests.support.ssh_server import TRAINYARD, add_host, run_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.panel import Measured, Work

MARK = "BENCHMARK_SIDE"
"""The variable by which the processes of a side are found: ssh does not pass it on by itself."""
DEVICES = ("cpu:0", "one/cpu:1")
NODES = len(DEVICES)


def on_two_hosts(work: Work) -> Measured:
    """Train it under the panel, here and on a host that is reached through ssh."""
    with _host():
        return under_the_panel(work, (*cpu_devices(), *devices_of(work.devices)))


@contextlib.contextmanager
def _host() -> Iterator[None]:
    """A host `one` in a list of hosts of our own, while the server runs."""
    with tempfile.TemporaryDirectory() as name, contextlib.contextmanager(run_server)(Path(name)) as server:
        os.environ["PATH"] = f"{server.folder}/bin:{os.environ['PATH']}"
        os.environ[CONFIG_VARIABLE] = str(server.folder / "config")
        add_host(command=f"env {MARK}={os.environ.get(MARK, '')} {TRAINYARD}")
        yield


def by_torchrun(work: Work) -> Result:
    """Train it with the script by hand under one torchrun per node. Raises `RuntimeError` with its output."""
    recipe = recipes.find(work.recipe, work.framework)
    port = free_addresses(1)[0].rpartition(":")[2]
    script = [
        str(SCRIPTS / f"{work.framework}_{work.strategy}.py"), str(recipe.path), str(work.epochs),
        str(work.batch_size), str(work.rate),
    ]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as log:
        nodes = [
            subprocess.Popen(
                [
                    "taskset", "--cpu-list", ",".join(map(str, device.cores)), sys.executable,
                    "-m", "torch.distributed.run", "--nnodes", str(NODES), "--node-rank", str(rank),
                    "--nproc-per-node", "1", "--master-addr", HOST, "--master-port", port, *script,
                ],
                env={
                    **os.environ, "CUDA_VISIBLE_DEVICES": "", "GLOO_SOCKET_IFNAME": "lo",
                    "OMP_NUM_THREADS": str(len(device.cores)),
                },
                stdin=subprocess.DEVNULL, stdout=out, stderr=log, start_new_session=True,
            )
            for rank, device in enumerate(cpu_devices()[:NODES])
        ]
        deadline = time.monotonic() + TIMEOUT_S
        try:
            for node in nodes:
                node.wait(max(1.0, deadline - time.monotonic()))
        finally:
            for node in nodes:
                node.terminate()  # torchrun ends its worker
                node.wait()
        return read_result(out, log)
