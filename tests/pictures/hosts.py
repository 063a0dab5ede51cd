"""Hosts that do not exist, each in another state: one that trains, one whose clock is off, and one that is away."""

from collections.abc import Sequence

from core.devices.device import Device, Sample, Survey, device_here, sample_here
from core.hosts import host_list, inquiry
from core.hosts.carrier import Failure, HostError
from core.hosts.connection import Clock
from core.hosts.host_list import Host
from core.hosts.inquiry import HostState, Phase
from core.hosts.protocol import Hello, HostUse, HostUses
from core.system.processes import HostId

from .machine import GB, NOW

PERIOD_S, PAST_S = 1.0, 120
HELLO = Hello(
    protocol=1, version="0.1.0", python="3.12.3", user="anna", runs="/home/anna/.local/share/trainyard/runs",
    identity=HostId(host="node2", boot="", pid_namespace=""),
)
AWAY = HostError(
    Failure.UNREACHABLE,
    "node4 (anna@node4) cannot be reached. Check that it is switched on, its firewall, and the network or VPN. "
    "ssh says: connect to host node4 port 22: No route to host",
)
Load = tuple[int, float, int, int]
"""Of a GPU: per cent, GB, degrees Celsius, watts."""
LOADS = ((88, 61.2, 64, 548), (84, 60.9, 66, 541), (2, 17.3, 41, 92), (0, 0.3, 34, 68))
"""Of the GPUs of the first host."""
USES = HostUses(
    by_device={
        "GPU-a0": HostUse(runs=("a",), names=("llama_lora",)),
        "GPU-a1": HostUse(runs=("a",), names=("llama_lora",)),
        "GPU-a2": HostUse(others=("pid 812 blender (ben)",), program="blender (ben)"),
    },
    available_bytes=790 * GB,
)


class PlayedWatch:
    """Takes the place of `HostWatch`: the state is always the same."""

    def __init__(self, host: Host) -> None:
        self.state = STATES[host.name]
        self._samples = _past(self.state.survey.samples)

    @property
    def host(self) -> Host:
        return self.state.host

    def begin(self) -> None:
        pass

    def end(self) -> None:
        pass

    def retry(self) -> None:
        pass

    def join(self, timeout_s: float) -> None:
        pass

    def new_samples(self) -> list[Sample]:
        fetched, self._samples = self._samples, []
        return fetched


def _past(samples: Sequence[Sample]) -> list[Sample]:
    return [sample.at(NOW - PAST_S + number * PERIOD_S) for number in range(PAST_S) for sample in samples]


def _survey(host: str, letter: str, model: str, gigabytes: int, limit_w: float, loads: Sequence[Load]) -> Survey:
    """Return GPUs of one model, and a CPU device."""
    cpu = Device(id="cpu:0", kind="cpu", label="CPU 0", name="AMD EPYC 9554 64-Core Processor, 64 cores",
                 memory_total_bytes=1024 * GB, cores=tuple(range(64)))
    gpus = [
        Device(id=f"GPU-{letter}{number}", kind="nvidia", label=f"GPU {number}", name=model,
               memory_total_bytes=gigabytes * GB)
        for number in range(len(loads))
    ]
    samples = [
        Sample(device_id=gpu.id, time=NOW, utilisation_percent=busy, memory_used_bytes=int(used * GB),
               temperature_celsius=heat, power_watts=watts, power_limit_watts=limit_w)
        for gpu, (busy, used, heat, watts) in zip(gpus, loads, strict=True)
    ]
    own = (*samples, Sample(device_id=cpu.id, time=NOW, utilisation_percent=21.0))
    return Survey(
        devices=tuple(device_here(host, each) for each in (*gpus, cpu)),
        samples=tuple(sample_here(host, each) for each in own),
    )


def _state(name: str, survey: Survey, offset_s: float, uses: HostUses) -> HostState:
    clock = Clock(offset_s=offset_s, round_trip_s=0.04)
    return HostState(host=_host(name), phase=Phase.REACHABLE, hello=HELLO, clock=clock, survey=survey, uses=uses)


def _host(name: str) -> Host:
    return Host(name=name, address=f"anna@{name}")


BUSY = _survey("node2", "a", "NVIDIA H100 80GB HBM3", 80, 700.0, LOADS)
FREE = _survey("node3", "b", "NVIDIA GeForce RTX 4090", 24, 450.0, [(0, 0.25, 36, 22)] * 2)
STATES = {
    "node2": _state("node2", BUSY, 0.02, USES),
    "node3": _state("node3", FREE, -75.0, HostUses(by_device={}, available_bytes=990 * GB)),
    "node4": HostState(host=_host("node4"), phase=Phase.NOT_REACHABLE, error=AWAY),
}


def add_hosts() -> None:
    """Add them to the list of the user whom the pictures are about."""
    inquiry.HostWatch = PlayedWatch  # type: ignore[assignment, misc]  # in this process, which is for pictures alone
    for state in STATES.values():
        host_list.add(state.host)
