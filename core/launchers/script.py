"""Start a user's own program unchanged: as a shell does, or one process per device as torchrun does."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from core.launchers import program
from core.launchers.local import HOST, environment, loopback_variables
from core.launchers.torch_store import TorchStore
from core.schema.files import open_to_append
from core.schema.paths import METRICS_VARIABLE, WORKLOAD_FILE, log_of_rank, metrics_file
from core.schema.settings import Script
from core.schema.spec import RankAssignment, RunSpec
from core.system.helper_process import around, clean_environment
from core.system.processes import RUN_DIR

AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE"
"""The variable that tells PyTorch's ranks whether a process other than rank 0 serves their store."""
MEETING = frozenset({AGENT_STORE, "MASTER_ADDR", "MASTER_PORT"})
"""Variables with which the user decides where PyTorch's ranks meet."""
TF_CONFIG = "TF_CONFIG"
RANK_0_SERVES = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
"""The variable with the value 1 by which torchrun, too, leaves the store to rank 0."""


def serve_store(spec: RunSpec, script: Script, meeting: str) -> TorchStore | None:
    """Serve the store of PyTorch's ranks on the loopback interface, if the script's Python can; else rank 0 does: None.

    `meeting`: the address in place of the loopback's for ranks on several machines; else empty. The user's variables
    take precedence.
    """
    variables = {**clean_environment(spec.python), **script.environment}
    if MEETING & script.environment.keys() or variables.get(RANK_0_SERVES) == "1":
        return None
    host, _, port = meeting.rpartition(":")
    address = [(host, int(port))] if meeting else []
    with contextlib.suppress(OSError):  # of the interpreter or the working folder, which `launch` raises again
        store = TorchStore(spec.python, variables, spec.working_dir, *address)
        if store.is_ready():
            return store
        store.close()
    return None


def launch(
    spec: RunSpec, run_dir: Path, assignment: RankAssignment, names: Mapping[str, str] | None, *,
    port: str, has_store: bool, umask: int,
) -> subprocess.Popen[bytes]:
    """Start one process. Raises `OSError` if the interpreter or the working folder is missing.

    Its stdin is empty: nothing can be typed, and the guard replaces a dead-man switch. It leads a process group, so
    that everything it starts can be interrupted as by Ctrl-C in a terminal. `names`: see `local.cuda_names`. `port`:
    where the ranks of this machine meet. `has_store`: see `as_torchrun`. `umask`: of the process.
    """
    script = spec.script
    assert script is not None
    variables = environment(around(spec.python, os.environ), run_dir.name, assignment, names)
    if spec.strategy == "per-device":
        address = assignment.meeting or f"{HOST}:{port}"
        variables |= as_torchrun(assignment, address, os.environ, has_store=has_store)
        variables |= {TF_CONFIG: tf_config(assignment)} if assignment.addresses else {}
    variables |= {
        RUN_DIR: str(run_dir),
        METRICS_VARIABLE: str(metrics_file(run_dir, assignment.rank)),
        "PWD": spec.working_dir,  # as a shell sets it in this folder
        **script.environment,
    }
    copy = (program.__file__, str(run_dir / WORKLOAD_FILE)) if spec.recorded else ()
    with os.fdopen(open_to_append(log_of_rank(run_dir, assignment.rank)), "ab") as log:
        process = subprocess.Popen(
            [spec.python, *copy, *command_of(script)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            cwd=spec.working_dir, env=variables, start_new_session=True, umask=umask,
        )
    if assignment.cores and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(process.pid, assignment.cores)  # before it loads a library that counts cores
    return process


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
    }


def tf_config(assignment: RankAssignment) -> str:
    """Return the variable by which the processes of TensorFlow's MultiWorkerMirroredStrategy find each other.

    https://www.tensorflow.org/guide/distributed_training#TF_CONFIG
    """
    task = {"type": "worker", "index": assignment.rank}
    return json.dumps({"cluster": {"worker": list(assignment.addresses)}, "task": task})
