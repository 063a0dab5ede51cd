"""Starts a user's own program, unchanged: as a shell would, or as torchrun would, one process per device."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from typing import TYPE_CHECKING

from core.devices.nvidia.preflight import ORDER, VISIBLE
from core.launchers.local import environment
from core.launchers.ranks import HOST, free_addresses
from core.schema.paths import METRICS_VARIABLE, log_of_rank, metrics_file
from core.system.processes import RUN_DIR, TAG

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from core.schema.rank import RankAssignment
    from core.schema.settings import Script
    from core.schema.spec import RunSpec


FROM_RUN = frozenset({TAG, RUN_DIR, METRICS_VARIABLE})
FROM_DEVICES = frozenset({ORDER, VISIBLE})
PER_DEVICE = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"})
"""Each process has its own, or they would not be as many as there are devices."""


class Launcher:
    """Starts the processes of one run, of which those of one per device meet at one port."""

    def __init__(self, spec: RunSpec, run_dir: Path, umask: int = -1) -> None:
        """`umask`: of the processes; -1 for that of this one."""
        assert spec.script is not None
        self._spec, self._script, self._run_dir, self._umask = spec, spec.script, run_dir, umask
        self.names: Mapping[str, str] | None = None
        """See `core.launchers.local.cuda_names`."""
        self._port = free_addresses(1)[0].rpartition(":")[2]

    def launch(self, placement: RankAssignment) -> subprocess.Popen[bytes]:
        """Start one process. Raises `OSError` when the interpreter or the working folder is not there.

        It reads nothing: nobody could type, and a pipe of ours would tell it of our end, which the guard does.
        It leads a process group, so that all that it starts can be interrupted as by Ctrl-C in a terminal.
        """
        with log_of_rank(self._run_dir, placement.rank).open("ab") as log:
            process = subprocess.Popen(
                [self._spec.python, *self._script.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._spec.working_dir,
                env=self._environment(placement),
                start_new_session=True,
                umask=self._umask,
            )
        _pin(process.pid, placement)
        return process

    def _environment(self, placement: RankAssignment) -> dict[str, str]:
        ours = environment(os.environ, self._run_dir.name, placement, self.names)
        if self._spec.strategy == "per-device":
            ours |= as_torchrun(placement, self._port, dict(os.environ))
        return {
            **ours,
            RUN_DIR: str(self._run_dir),
            METRICS_VARIABLE: str(metrics_file(self._run_dir, placement.rank)),
            "PWD": self._spec.working_dir,  # as a shell has it that has gone there
            **self._script.environment,
        }


def as_torchrun(placement: RankAssignment, port: str, base: Mapping[str, str]) -> dict[str, str]:
    """What torchrun tells each of its processes, on one machine.

    The run's id among them is how PyTorch (`torch.distributed.is_torchelastic_launched`), and with it Lightning,
    knows that the processes are started already. Rank 0 itself serves the store at the port: no agent does.
    https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables
    """
    rank, size = str(placement.rank), str(placement.world_size)
    threads = str(len(placement.cores)) if placement.cores else base.get("OMP_NUM_THREADS", "1")
    return {
        "RANK": rank, "LOCAL_RANK": rank, "ROLE_RANK": rank, "GROUP_RANK": "0",
        "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "ROLE_WORLD_SIZE": size, "GROUP_WORLD_SIZE": "1",
        "ROLE_NAME": "default", "MASTER_ADDR": HOST, "MASTER_PORT": port, "OMP_NUM_THREADS": threads,
        "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0", "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }  # fmt: skip


def problems(script: Script, way: str) -> list[str]:
    """What of a script's variables would contradict what is ticked, or cannot be had: sentences. `way`: its launch."""
    fixed = FROM_DEVICES | PER_DEVICE if way == "per-device" else FROM_DEVICES
    told = [
        f"{name} cannot be given to the script, since it follows from {what}. Leave it out."
        for names, what in ((fixed, "the devices that are ticked"), (FROM_RUN, "the run"))
        for name in sorted(names & script.environment.keys())
    ]
    port = script.environment.get("MASTER_PORT")
    if port is not None and not _is_free(port):
        told.append(f"MASTER_PORT {port} is another program's, or is no port. Leave it out: a free one is found.")
    return told


def _is_free(port: str) -> bool:
    with contextlib.suppress(ValueError, OSError, OverflowError), socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as those who listen there will do
        probe.bind((HOST, int(port)))
        return True
    return False


def _pin(pid: int, placement: RankAssignment) -> None:
    """To its devices' cores, before it has loaded anything that counts them."""
    if placement.cores and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            os.sched_setaffinity(pid, placement.cores)
