"""Decide which worker computes on which devices and where workers meet; start them with only these devices visible."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from core.catalog.strategies import Strategy
from core.devices.device import Device
from core.devices.nvidia import preflight
from core.launchers import p2p
from core.launchers.loopback import LoopbackNetwork
from core.schema.files import open_to_append
from core.schema.paths import LOG_FILE
from core.schema.spec import RankAssignment, RunSpec
from core.system.helper_process import around
from core.system.processes import RUN_DIR, TAG

Slot = tuple[str, tuple[Device, ...]]
"""A worker's role and its own devices."""


HOST = "127.0.0.1"
LOOPBACK = ("lo", "lo0")
"""Names of the loopback interface: Linux, and macOS and the BSDs."""
FETCH = "fetch"
"""The role of a process that fetches what the recipe needs."""


def assign_ranks(devices: Sequence[Device], strategy: Strategy) -> list[RankAssignment]:
    """Return the assignment of each rank, as the strategy requires."""
    slots = _SLOTS[strategy.processes](devices)
    addresses = free_addresses(len(slots)) if strategy.needs_addresses else ()
    return [
        RankAssignment(
            rank=rank, world_size=len(slots), devices=tuple(device.id for device in devices),
            own=tuple(device.id for device in own), kind=devices[0].kind, target=strategy.target, role=role,
            cores=tuple(core for device in own for core in device.cores), addresses=addresses,
            serves=role != "chief" and slots[0][0] == "chief",
        )
        for rank, (role, own) in enumerate(slots)
    ]


def fetcher(assignments: Sequence[RankAssignment]) -> RankAssignment:
    """Return the assignment of the process that fetches for these (`core.worker.main`): their cores, but no GPU."""
    cores = tuple(core for assignment in assignments for core in assignment.cores)
    return replace(assignments[0], rank=len(assignments), own=(), cores=cores, target="main:fetch", role=FETCH)


def _per_device(devices: Sequence[Device]) -> list[Slot]:
    return [("worker", (device,)) for device in devices]


_SLOTS: dict[str, Callable[[Sequence[Device]], list[Slot]]] = {
    "one": lambda devices: [("worker", tuple(devices))],
    "per_device": _per_device,
    # A chief, a worker per device, and a server that keeps the variables.
    "parameter_server": lambda devices: [("chief", ()), *_per_device(devices), ("ps", ())],
}


def free_addresses(count: int) -> tuple[str, ...]:
    """Return `count` different unused addresses of this machine."""
    with contextlib.ExitStack() as stack:  # kept open until the last one is known, or one could be returned twice
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return tuple(f"{HOST}:{each.getsockname()[1]}" for each in sockets)


def loopback_variables(base: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which gloo and NCCL listen on the loopback interface only, as all ranks are here.

    Both choose another interface by themselves, or the one of the host's name. A variable that `base` has stays as it
    is. NCCL ignores the loopback's IPv6 address, so NCCL_SOCKET_FAMILY means that the user chooses. Without a known
    loopback interface nothing is returned, and both choose.
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname
    """
    present = {name for _, name in socket.if_nameindex()}
    name = next((name for name in LOOPBACK if name in present), None)
    if name is None:
        return {}
    found = {"GLOO_SOCKET_IFNAME": name}
    if "NCCL_SOCKET_FAMILY" not in base:
        found["NCCL_SOCKET_IFNAME"] = f"={name}"  # without "=" a prefix
    return {variable: value for variable, value in found.items() if variable not in base}


RAS = ("NCCL_RAS_ADDR", "NCCL_RAS_ENABLE")
"""The variables for NCCL's reports about a run (RAS, since 2.24): the address, and whether there are any."""
RAS_PORTS = range(61_000, 65_536)
"""Ports above those that the system hands out by itself."""


def ras_address(run_id: str) -> str:
    """Return where NCCL reports about a run: an address of its own on the loopback, which follows from its id.

    NCCL's usual address is the same for all programs of a machine. Where a port is taken, NCCL reports nothing.
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ras-addr
    """
    return f"{HOST}:{RAS_PORTS[zlib.crc32(run_id.encode()) % len(RAS_PORTS)]}"


SIOCGIFADDR = 0x8915
"""The request for the address of an interface: see netdevice(7)."""


def interfaces() -> dict[str, str]:
    """Return the IPv4 address of each interface that has one, by the interface's name."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has no address
                answer = fcntl.ioctl(any_socket, SIOCGIFADDR, struct.pack("16s24x", name.encode()[:15]))
                found[name] = socket.inet_ntoa(answer[20:24])
    return found


def interface_of(address: str) -> str:
    """Return the name of the interface with this address; the empty string if there is none."""
    return next((name for name, own in interfaces().items() if own == address), "")


def reach(host: str, port: int, timeout_s: float) -> tuple[str, str]:
    """Connect to an address once. Return the interface over which that goes, and its address. Raises `OSError`."""
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        address = str(connection.getsockname()[0])
    return interface_of(address), address


@contextlib.contextmanager
def listening(count: int) -> Iterator[list[int]]:
    """Listen on `count` free ports of all addresses for as long as the block lasts; yield the ports. Raises `OSError`.

    No other program is given them meanwhile.
    """
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("", 0))) for _ in range(count)]
        yield [each.getsockname()[1] for each in listeners]


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
    spec: RunSpec, run_dir: Path, assignment: RankAssignment, names: Mapping[str, str] | None = None,
    network: LoopbackNetwork | None = None,
) -> subprocess.Popen[bytes]:
    """Start one worker. Its stdin is the dead-man switch: it exits when the caller's end of the pipe is closed.

    Its output goes to `log.txt`, because a pipe would end with its reader, and the training with it. It leads a
    process group, so that its data-loader workers can be terminated with it. `names`: see `cuda_names`. `network`: the
    network that it enters; None for that of the machine. Raises `OSError` if the interpreter or the working folder is
    missing.
    """
    command = [spec.python, str(BOOT), str(run_dir), assignment.to_text()]
    inherited = around(spec.python, os.environ)
    if network is not None:  # the interfaces that the user may have named do not exist there
        inherited = {name: value for name, value in inherited.items() if name not in loopback_variables({})}
    passed = () if assignment.gate is None else (assignment.gate,)
    with os.fdopen(open_to_append(run_dir / LOG_FILE), "ab") as log:
        return subprocess.Popen(
            command if network is None else network.command(command),
            pass_fds=passed if network is None else (*passed, *network.descriptors),
            stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=spec.working_dir, start_new_session=True,
            env={**environment(inherited, run_dir.name, assignment, names), RUN_DIR: str(run_dir)},
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
    if ids:
        changed |= p2p.variables(base)
    if ids and not base.keys() & set(RAS):
        changed[RAS[0]] = ras_address(run_id)
    if assignment.cores:
        changed["OMP_NUM_THREADS"] = str(len(assignment.cores))
    if assignment.interface:
        name = assignment.interface  # which is known to reach the other ranks; without "=" NCCL takes it for a prefix
        changed |= {"GLOO_SOCKET_IFNAME": name, "NCCL_SOCKET_IFNAME": f"={name}"}
    elif assignment.world_size > 1:
        changed |= loopback_variables(base)
    return {**base, **changed}
