"""Starts a run's workers as processes of this machine, with only the ticked devices visible."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from core.devices.nvidia import preflight
from core.schema.paths import LOG_FILE
from core.system.processes import RUN_DIR, TAG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.schema.rank import RankAssignment
    from core.schema.spec import RunSpec

BOOT = Path(__file__).resolve().parents[1] / "worker" / "boot.py"


def cuda_names(placements: Sequence[RankAssignment], how: str, python: str) -> dict[str, str] | None:
    """What stands for each GPU of a run in CUDA_VISIBLE_DEVICES, by UUID; None where the UUIDs themselves do.

    `how`: `uuid`, or `integer` for libraries that read nothing else there; then the CUDA driver is asked which
    number each GPU has. Raises `RunError` when one has none, or the driver cannot be asked.
    """
    ids = list(dict.fromkeys(each for placement in placements for each in visible_ids(placement)))
    return preflight.numbers(ids, os.environ, python=python) if how == "integer" and ids else None


def check_sight(
    spec: RunSpec, run_id: str, placements: Sequence[RankAssignment], names: Mapping[str, str] | None = None
) -> None:
    """The pre-flight: the CUDA driver must show each worker exactly its devices, in their order.

    Asked once for each set of devices that workers see; nothing is asked for a run without GPUs. Raises `RunError`
    with both lists when they differ, and when the driver cannot be asked.
    """
    asked = {visible_ids(placement): placement for placement in placements}
    for ids, placement in asked.items():
        if ids:
            preflight.check(ids, environment(os.environ, run_id, placement, names), python=spec.python)


def launch(
    spec: RunSpec, run_dir: Path, placement: RankAssignment, names: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start one worker. Its stdin is the dead-man switch: it ends when the caller's end is closed.

    Its output goes to `log.txt`, never into a pipe of ours: a pipe dies with its reader and takes
    training along. It leads a process group, so that its data-loader workers can be ended with it.
    `names`: see `cuda_names`. Raises `OSError` when the interpreter or the working folder is not there.
    """
    with (run_dir / LOG_FILE).open("ab") as log:
        return subprocess.Popen(
            [spec.python, str(BOOT), str(run_dir), placement.to_text()],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=spec.working_dir,
            env={**environment(os.environ, run_dir.name, placement, names), RUN_DIR: str(run_dir)},
            start_new_session=True,
        )


def visible_ids(placement: RankAssignment) -> tuple[str, ...]:
    """The GPUs that a worker sees, in its order; none on CPU devices.

    A process that meets the others over the network stands for a machine of its own, and sees only its own devices.
    """
    if placement.kind != "nvidia":
        return ()
    return placement.own if placement.addresses else placement.devices


def environment(
    base: Mapping[str, str], run_id: str, placement: RankAssignment, names: Mapping[str, str] | None = None
) -> dict[str, str]:
    """A worker's environment: the tag, and the devices by full UUID in the order of the bus.

    CUDA's own order is fastest first and NVML's is by bus; full UUIDs with PCI_BUS_ID leave no doubt
    which card is meant. A CPU run sees no GPU at all. `names`, where it is given, has by UUID what is written
    instead: the number by bus, for libraries that read numbers only.
    """
    ids = visible_ids(placement)
    changed = {
        TAG: run_id,
        preflight.ORDER: preflight.BY_BUS,
        preflight.VISIBLE: ",".join(ids if names is None else (names[each] for each in ids)),
        "PYTHONUNBUFFERED": "1",  # what a recipe prints shows in the log when it is printed
    }
    if placement.cores:
        changed["OMP_NUM_THREADS"] = str(len(placement.cores))
    return {**base, **changed}
