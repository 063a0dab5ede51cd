"""Starts a run's workers as processes of this machine, with only the ticked devices visible."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from core.processes import TAG
from core.spec import Placement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.devices.device import Device
    from core.spec import RunSpec

BOOT = Path(__file__).resolve().parents[1] / "worker" / "boot.py"


def placements(devices: Sequence[Device], *, target: str, per_device: bool) -> list[Placement]:
    """Who works where: one worker per device, or one for all of them."""
    groups = [(device,) for device in devices] if per_device else [tuple(devices)]
    return [
        Placement(
            rank=rank,
            world_size=len(groups),
            devices=tuple(device.id for device in devices),
            kind=devices[0].kind,
            cores=tuple(core for device in group for core in device.cores),
            target=target,
        )
        for rank, group in enumerate(groups)
    ]


def launch(spec: RunSpec, run_dir: Path, placement: Placement) -> subprocess.Popen[bytes]:
    """Start one worker. Its stdin is the dead-man switch: it ends when the caller's end is closed.

    Its output goes to `log.txt`, never into a pipe of ours: a pipe dies with its reader and takes
    training along. It leads a process group, so that its data-loader workers can be ended with it.
    Raises `OSError` when the interpreter or the working folder is not there.
    """
    with (run_dir / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [spec.python, str(BOOT), str(run_dir), placement.to_text()],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=spec.working_dir,
            env=environment(os.environ, run_dir.name, placement),
            start_new_session=True,
        )


def environment(base: Mapping[str, str], run_id: str, placement: Placement) -> dict[str, str]:
    """A worker's environment: the tag, and the devices by full UUID in the order of the bus.

    CUDA's own order is fastest first and NVML's is by bus; full UUIDs with PCI_BUS_ID leave no doubt
    which card is meant. A CPU run sees no GPU at all.
    """
    ids = placement.devices if placement.kind == "nvidia" else ()
    changed = {
        TAG: run_id,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(ids),
        "PYTHONUNBUFFERED": "1",  # what a recipe prints shows in the log when it is printed
    }
    if placement.cores:
        changed["OMP_NUM_THREADS"] = str(len(placement.cores))
    return {**base, **changed}
