"""Start a run's workers as processes of this machine, with only the ticked devices visible."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from core.devices.nvidia import preflight
from core.launchers.loopback import LoopbackNetwork
from core.launchers.ranks import interface_variables, loopback_variables
from core.schema.files import open_to_append
from core.schema.paths import LOG_FILE
from core.schema.rank import RankAssignment
from core.schema.spec import RunSpec
from core.system.processes import RUN_DIR, TAG

BOOT = Path(__file__).resolve().parents[1] / "worker" / "boot.py"


def cuda_names(assignments: Sequence[RankAssignment], id_format: str, python: str) -> dict[str, str] | None:
    """Return, by UUID, the name of each GPU of a run in CUDA_VISIBLE_DEVICES; None if it is the UUID itself.

    `id_format`: `uuid`, or `integer` for libraries that accept nothing else; then the CUDA driver is asked for the
    numbers. Raises `RunError` if a GPU has none, or if the driver cannot be asked.
    """
    ids = list(dict.fromkeys(each for assignment in assignments for each in visible_ids(assignment)))
    return preflight.numbers(ids, os.environ, python=python) if id_format == "integer" and ids else None


def check_visible_devices(
    spec: RunSpec, run_id: str, assignments: Sequence[RankAssignment], names: Mapping[str, str] | None = None
) -> None:
    """Check that the CUDA driver shows each worker exactly its devices, in their order (the pre-flight check).

    It is checked once for each set of devices, and not at all for a run without GPUs. Raises `RunError` with both
    lists if they differ, or if the driver cannot be asked.
    """
    by_ids = {visible_ids(assignment): assignment for assignment in assignments}
    for ids, assignment in by_ids.items():
        if ids:
            preflight.check(ids, environment(os.environ, run_id, assignment, names), python=spec.python)


def launch(
    spec: RunSpec,
    run_dir: Path,
    assignment: RankAssignment,
    names: Mapping[str, str] | None = None,
    network: LoopbackNetwork | None = None,
) -> subprocess.Popen[bytes]:
    """Start one worker. Its stdin is the dead-man switch: it exits when the caller's end of the pipe is closed.

    Its output goes to `log.txt`, because a pipe would end with its reader, and the training with it. It leads a
    process group, so that its data-loader workers can be terminated with it. `names`: see `cuda_names`. `network`: the
    network that it enters; None for that of the machine. Raises `OSError` if the interpreter or the working folder is
    missing.
    """
    command = [spec.python, str(BOOT), str(run_dir), assignment.to_text()]
    inherited = dict(os.environ)
    if network is not None:  # the interfaces that the user may have named do not exist there
        inherited = {name: value for name, value in inherited.items() if name not in loopback_variables({})}
    passed = () if assignment.gate is None else (assignment.gate,)
    with os.fdopen(open_to_append(run_dir / LOG_FILE), "ab") as log:
        return subprocess.Popen(
            command if network is None else network.command(command),
            pass_fds=passed if network is None else (*passed, *network.descriptors),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=spec.working_dir,
            env={**environment(inherited, run_dir.name, assignment, names), RUN_DIR: str(run_dir)},
            start_new_session=True,
        )


def visible_ids(assignment: RankAssignment) -> tuple[str, ...]:
    """Return the GPUs that a worker sees, in its order; none on CPU devices.

    A worker that meets the others over the network acts as a machine of its own, and sees only its own devices.
    """
    if assignment.kind != "nvidia":
        return ()
    return assignment.own if assignment.addresses else assignment.devices


def environment(
    base: Mapping[str, str], run_id: str, assignment: RankAssignment, names: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return a worker's environment: `base`, the run's tag, and the devices by full UUID in bus order.

    CUDA's own order is fastest first and NVML's is by bus; full UUIDs with PCI_BUS_ID are unambiguous. A CPU run sees
    no GPU. `names`: see `cuda_names`.
    """
    ids = visible_ids(assignment)
    changed = {
        TAG: run_id,
        preflight.ORDER: preflight.BY_BUS,
        preflight.VISIBLE: ",".join(ids if names is None else (names[each] for each in ids)),
        "PYTHONUNBUFFERED": "1",  # a recipe's output appears in the log at once
    }
    if assignment.cores:
        changed["OMP_NUM_THREADS"] = str(len(assignment.cores))
    if assignment.interface:
        changed |= interface_variables(assignment.interface)
    elif assignment.world_size > 1:
        changed |= loopback_variables(base)
    return {**base, **changed}
