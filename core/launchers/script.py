"""Start a user's own program unchanged: as a shell does, or one process per device as torchrun does."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from core.devices.nvidia.preflight import ORDER, VISIBLE
from core.language import tr
from core.launchers import program
from core.launchers.local import HOST, environment, free_addresses, loopback_variables
from core.launchers.torch_store import TorchStore
from core.schema.files import open_to_append
from core.schema.paths import METRICS_VARIABLE, WORKLOAD_FILE, log_of_rank, metrics_file
from core.schema.settings import Script
from core.schema.spec import RankAssignment, RunSpec
from core.system.helper_process import clean_environment
from core.system.processes import RUN_DIR, TAG

FROM_RUN = frozenset({TAG, RUN_DIR, METRICS_VARIABLE})
"""Variables that the run sets."""
FROM_DEVICES = frozenset({ORDER, VISIBLE})
"""Variables that follow from the ticked devices."""
PER_DEVICE = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"})
"""Variables that differ between the processes of a run with one process per device."""
AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE"
"""The variable that tells PyTorch's ranks whether a process other than rank 0 serves their store."""
MEETING = frozenset({AGENT_STORE, "MASTER_ADDR", "MASTER_PORT"})
"""Variables with which the user decides where PyTorch's ranks meet."""
TF_CONFIG = "TF_CONFIG"
RANK_0_SERVES = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
"""The variable with the value 1 by which torchrun, too, leaves the store to rank 0."""


class Launcher:
    """Starts the processes of one run on this machine. With one process per device they meet at one port."""

    def __init__(self, spec: RunSpec, run_dir: Path, umask: int = -1) -> None:
        """`umask`: that of the processes; -1 for the umask of this process."""
        assert spec.script is not None
        self._spec, self._script, self._run_dir, self._umask = spec, spec.script, run_dir, umask
        self.names: Mapping[str, str] | None = None
        """See `core.launchers.local.cuda_names`."""
        self._port = free_addresses(1)[0].rpartition(":")[2]
        self._store: TorchStore | None = None

    def serve_store(self, meeting: str) -> None:
        """Serve the store of PyTorch's ranks on the loopback interface, if the script's Python can; else rank 0 does.

        `meeting`: the address in place of the loopback's for ranks on several machines; else empty. The user's
        variables take precedence. Call it at most once, before `launch`; `close` ends the store.
        """
        variables = {**clean_environment(), **self._script.environment}
        if MEETING & self._script.environment.keys() or variables.get(RANK_0_SERVES) == "1":
            return
        with contextlib.suppress(OSError):  # of the interpreter or the working folder, which `launch` raises again
            store = TorchStore(self._spec.python, variables, self._spec.working_dir, *_at(meeting))
            if store.is_ready():
                self._store, self._port = store, store.port
            else:
                store.close()

    @property
    def shared_variables(self) -> dict[str, str]:
        """The variables with which ranks on other machines find the store that this one serves."""
        return {AGENT_STORE: str(True)} if self._store is not None else {}

    @property
    def has_lost_store(self) -> bool:
        """Whether the process that serves the store has ended."""
        return self._store is not None and self._store.has_ended

    @property
    def ranks_never_met(self) -> bool:
        """Whether there were several ranks, and none has connected to the store that this run serves."""
        return self._store is not None and len(self._spec.devices) > 1 and not self._store.has_met()

    def close(self) -> None:
        """End the store, when no rank needs it."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def launch(self, assignment: RankAssignment) -> subprocess.Popen[bytes]:
        """Start one process. Raises `OSError` if the interpreter or the working folder is missing.

        Its stdin is empty: nothing can be typed, and the guard replaces a dead-man switch. It leads a process group, so
        that everything it starts can be interrupted as by Ctrl-C in a terminal.
        """
        with os.fdopen(open_to_append(log_of_rank(self._run_dir, assignment.rank)), "ab") as log:
            process = subprocess.Popen(
                [self._spec.python, *self._command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._spec.working_dir,
                env=self._environment(assignment),
                start_new_session=True,
                umask=self._umask,
            )
        _pin(process.pid, assignment)
        if self._store is not None:
            self._store.add_rank(process.pid)
        return process

    def _command(self) -> tuple[str, ...]:
        """Return the command line after the interpreter; see `core.launchers.program`."""
        copy = (program.__file__, str(self._run_dir / WORKLOAD_FILE)) if self._spec.recorded else ()
        return (*copy, *command_of(self._script))

    def _environment(self, assignment: RankAssignment) -> dict[str, str]:
        ours = environment(os.environ, self._run_dir.name, assignment, self.names)
        if self._spec.strategy == "per-device":
            address = assignment.meeting or f"{HOST}:{self._port}"
            ours |= as_torchrun(assignment, address, os.environ, has_store=self._store is not None)
            ours |= {TF_CONFIG: tf_config(assignment)} if assignment.addresses else {}
        return {
            **ours,
            RUN_DIR: str(self._run_dir),
            METRICS_VARIABLE: str(metrics_file(self._run_dir, assignment.rank)),
            "PWD": self._spec.working_dir,  # as a shell sets it in this folder
            **self._script.environment,
        }


def _at(meeting: str) -> list[tuple[str, int]]:
    """Return the address at which the ranks of several machines meet; nothing for those of one."""
    host, _, port = meeting.rpartition(":")
    return [(host, int(port))] if meeting else []


def command_of(script: Script) -> tuple[str, ...]:
    """Return the command line after the interpreter. A notebook is run by a file of ours."""
    runner = (program.__file__,) if script.path.endswith(program.SUFFIX) else ()
    return (*runner, *script.command)


def as_torchrun(
    assignment: RankAssignment, address: str, base: Mapping[str, str], *, has_store: bool
) -> dict[str, str]:
    """Return the variables that torchrun sets for each process, and NODE_RANK for one of several machines.

    By TORCHELASTIC_RUN_ID PyTorch (`torch.distributed.is_torchelastic_launched`), and with it Lightning, recognises
    that all processes are started already. `address`: `host:port` of the store. `has_store`: whether a process serves
    the store there, as torchrun does; otherwise rank 0 serves it.
    https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables
    """
    host, _, port = address.rpartition(":")
    local_size, node = str(len(assignment.devices)), str(assignment.host)
    rank, size = str(assignment.rank), str(assignment.world_size)
    threads = str(len(assignment.cores)) if assignment.cores else base.get("OMP_NUM_THREADS", "1")
    return {
        "RANK": rank, "LOCAL_RANK": str(assignment.local_rank), "ROLE_RANK": rank, "GROUP_RANK": node,
        "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": local_size, "ROLE_WORLD_SIZE": size,
        "GROUP_WORLD_SIZE": str(assignment.hosts),
        "ROLE_NAME": "default", "MASTER_ADDR": host, "MASTER_PORT": port, "OMP_NUM_THREADS": threads,
        "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0", "TORCHELASTIC_RUN_ID": "none",
        AGENT_STORE: str(has_store),
        **({"NODE_RANK": node} if assignment.interface else loopback_variables(base)),
    }  # fmt: skip


def tf_config(assignment: RankAssignment) -> str:
    """Return the variable by which the processes of TensorFlow's MultiWorkerMirroredStrategy find each other.

    https://www.tensorflow.org/guide/distributed_training#TF_CONFIG
    """
    task = {"type": "worker", "index": assignment.rank}
    return json.dumps({"cluster": {"worker": list(assignment.addresses)}, "task": task})


def problems(script: Script, launch_mode: str) -> list[str]:
    """Return a sentence for each variable of a script that contradicts the ticked devices or cannot be used."""
    fixed = FROM_DEVICES | PER_DEVICE if launch_mode == "per-device" else FROM_DEVICES
    sentences = [
        tr("{name} cannot be set for a script: Trainyard sets it from {what}. Leave it out.", name=name, what=what)
        for names, what in ((fixed, tr("the chosen devices")), (FROM_RUN, tr("the run")))
        for name in sorted(names & script.environment.keys())
    ]
    sentences += unset_variables(script)
    port = script.environment.get("MASTER_PORT")
    if port is not None and not _is_free(port):
        sentences.append(
            tr("MASTER_PORT {port} is in use or not a port. Leave it out: a free one is found.", port=port)
        )
    return sentences


def unset_variables(script: Script) -> list[str]:
    """Return a sentence for each variable that the script takes from this environment, which does not have it."""
    return [
        tr(
            "The variable {name} is not set. The script takes its value from the environment: export {name}=... first.",
            name=name,
        )
        for name in script.inherited
        if name not in os.environ
    ]


def _is_free(port: str) -> bool:
    with contextlib.suppress(ValueError, OSError, OverflowError), socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the program that listens there will
        probe.bind((HOST, int(port)))
        return True
    return False


def _pin(pid: int, assignment: RankAssignment) -> None:
    """Pin the process to its devices' cores, before it has loaded a library that counts them."""
    if assignment.cores and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(pid, assignment.cores)
