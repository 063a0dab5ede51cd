"""Starts the scripts of `by_hand` as a person would: pinned like the panel's workers, and as many processes.

Besides its arguments, a script gets the variables that `torchrun` sets, or `TF_CONFIG`.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from core.catalog import frameworks, recipes, strategies
from core.catalog.installed import interpreter
from core.devices.cpu import cpu_devices
from core.launchers.local import HOST, free_addresses

if TYPE_CHECKING:
    from benchmarks.panel import Work

SCRIPTS = Path(__file__).resolve().with_name("by_hand")
TIMEOUT_S = 3600  # halted for half of it, where it takes turns


class Result(NamedTuple):
    """What a script printed at its end."""

    ends: list[float]
    """Unix times at which the epochs ended, validations included."""
    val_loss: float | None


class Seat(NamedTuple):
    """A process of the script."""

    role: str
    cores: tuple[int, ...]
    """None: wherever there is room."""


def by_hand(work: Work) -> Result:
    """Train it with the script of its framework and strategy. Raises `RuntimeError` with the output of the script."""
    row = frameworks.framework(work.framework)
    cell = strategies.find_strategy(work.framework, work.strategy)
    recipe = recipes.find(work.recipe, work.framework)
    command = [
        interpreter(row), str(SCRIPTS / f"{work.framework}_{work.strategy}.py"), str(recipe.path), str(work.epochs),
        str(work.batch_size), str(work.rate),
    ]
    seats = _seats(cell.processes, [device.cores for device in cpu_devices() if device.id in work.devices])
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as log:
        processes = [
            subprocess.Popen(
                _pinned(command, seat),
                env={**os.environ, **own},
                stdout=out,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # as torchrun and the panel do: Linux deals time out among sessions
            )
            for seat, own in zip(seats, _environments(seats), strict=True)
        ]
        try:
            began = time.monotonic()
            for process, seat in zip(processes, seats, strict=True):
                if cell.processes != "parameter_server" or seat.role == "chief":  # the others serve for ever
                    process.wait(max(1.0, began + TIMEOUT_S - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise RuntimeError(
                f"The script written by hand did not end in {TIMEOUT_S} s.\n{_text(log)[-3000:]}"
            ) from None
        finally:
            for process in processes:
                process.kill()
                process.wait()
        return read_result(out, log)


def _seats(processes: str, cores: list[tuple[int, ...]]) -> list[Seat]:
    each = [Seat("worker", own) for own in cores]
    if processes == "one":
        return [Seat("worker", tuple(core for own in cores for core in own))]
    if processes == "parameter_server":
        return [Seat("chief", ()), *each, Seat("ps", ())]
    return each


def _pinned(command: list[str], seat: Seat) -> list[str]:
    return ["taskset", "--cpu-list", ",".join(map(str, seat.cores)), *command] if seat.cores else command


def _environments(seats: list[Seat]) -> list[dict[str, str]]:
    """Return the variables that tell each process about the others."""
    addresses = free_addresses(len(seats))
    roles = [seat.role for seat in seats]
    cluster = {
        role: [at for at, other in zip(addresses, roles, strict=True) if other == role] for role in dict.fromkeys(roles)
    }
    port = addresses[0].rpartition(":")[2]
    return [
        {
            "CUDA_VISIBLE_DEVICES": "",
            "TF_CPP_MIN_LOG_LEVEL": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "MASTER_ADDR": HOST, "MASTER_PORT": port, "RANK": str(rank), "WORLD_SIZE": str(len(seats)),
            **({"OMP_NUM_THREADS": str(len(seat.cores))} if seat.cores else {}),
            **_tf_config(cluster, seat.role, roles[:rank].count(seat.role)),
        }
        for rank, seat in enumerate(seats)
    ]


def _tf_config(cluster: dict[str, list[str]], role: str, index: int) -> dict[str, str]:
    if cluster.keys() == {"worker"} and len(cluster["worker"]) == 1:
        return {}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})}


def _text(file: TextIO) -> str:
    file.seek(0)
    return file.read()


def read_result(out: TextIO, log: TextIO) -> Result:
    """Return what a script has printed. Raises `RuntimeError` with its output if it has measured nothing."""
    printed = _text(out)
    for line in printed.splitlines():
        if line.startswith('{"ends"'):
            return Result(**json.loads(line))
    raise RuntimeError(f"The script written by hand measured nothing. Its output:\n{printed}{_text(log)[-3000:]}")
