"""A fake machine for MemoryWatch: the test sets its processes, devices and clock."""

import signal
from collections.abc import Mapping, Sequence

from core.devices.device import Device, Process, Sample
from core.memory_watch.gpu_processes import GpuProcessScan
from core.memory_watch.watch import MemoryWatch
from core.schema.event_kinds import ProcessInfo, Release
from core.schema.settings import ReleaseWatch
from core.system.processes import ProcessId

RUN = "20260101-120000-mine-abcd"
GPU = Device(id="GPU-1", kind="nvidia", label="GPU 0", name="RTX", pci_bus_id="0000:01:00.0", minor=0)
CPU = Device(id="cpu:0", kind="cpu", label="CPU 0", name="Xeon", cores=(0,))
CPU_1 = Device(id="cpu:1", kind="cpu", label="CPU 1", name="Xeon", cores=(1,))
MB, GB = 2**20, 2**30
WORKER = ProcessId(pid=100, created=5.0)


class FakeMachine:
    """A machine with a clock, the run's processes and the processes that use the GPU."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.left: dict[ProcessId, ProcessInfo] = {}
        """The run's remaining processes and their descriptions."""
        self.immune: dict[int, set[signal.Signals]] = {}
        self.refuses: set[str] = set()
        """Signals that `send` refuses, as if the target could not be identified."""
        self.sent: list[tuple[int, str]] = []
        self.others: list[ProcessInfo] = []
        self.trouble: str | None = None
        self.blind = False
        self.scans = 0

    def clock(self) -> float:
        return self.now

    def leave(self, pid: int, *, on: str | None = GPU.id, immune: str = "", state: str = "S") -> ProcessId:
        """Add a process of the run that outlives its worker."""
        process = ProcessId(pid=pid, created=7.0)
        self.left[process] = ProcessInfo(
            pid=pid, created=7.0, device_id=on, name="python", user="anna", run_id=RUN, ours=True, state=state,
            memory_used_bytes=GB,
        )
        self.immune[pid] = {signal.Signals[name] for name in immune.split()}
        return process

    def tagged(self) -> Sequence[ProcessId] | None:
        return None if self.blind else list(self.left)

    def inspect(self, process: ProcessId) -> ProcessInfo | None:
        return self.left.get(process)

    def send(self, process: ProcessId, number: signal.Signals) -> bool:
        if number.name in self.refuses:
            return False
        self.sent.append((process.pid, number.name))
        if number not in self.immune[process.pid]:
            del self.left[process]
        return True

    def scan(self, devices: Sequence[Device], listed: Mapping[str, Sequence[Process] | None]) -> GpuProcessScan:
        self.scans += 1
        own = () if self.blind else tuple(self.left.values())
        driver = tuple(
            ProcessInfo(pid=each.pid, memory_used_bytes=each.memory_used_bytes, device_id=device.id, listed=True)
            for device in devices
            for each in listed.get(device.id) or ()
            if each.pid not in {other.pid for other in self.others}
        )
        return GpuProcessScan((*own, *self.others, *driver), self.trouble, blind=self.blind)

    def cores(self, pid: int) -> frozenset[int]:
        return frozenset({pid % 2})


def other(
    pid: int = 4711, *, memory: int | None = 3 * GB, run_id: str | None = None, listed: bool = True
) -> ProcessInfo:
    return ProcessInfo(
        pid=pid, created=3.0, device_id=GPU.id, memory_used_bytes=memory, name="blender", user="bob",
        run_id=run_id, ours=run_id is not None, listed=listed, state="S",
    )


def reading(memory: int | None, device: Device = GPU, *, time: float = 0.0, lost: str | None = None, pids: Sequence[
    Process] | None = (), fault: str | None = None) -> Sample:
    processes = None if pids is None else tuple(pids)
    return Sample(device_id=device.id, time=time, memory_used_bytes=memory, lost=lost, processes=processes, fault=fault)


def trained(
    machine: FakeMachine,
    *,
    before: int | None = GB // 2,
    peak: int | None = 9 * GB,
    device: Device = GPU,
    wait_s: float = 60,
    unlisted: bool = False,
) -> MemoryWatch:
    """A watch whose run has just ended. `unlisted`: the driver's process list was unreadable before the run."""
    watch = MemoryWatch(RUN, [device], ReleaseWatch(wait_s=wait_s), machine, machine.clock)
    watch.begin([reading(before, device, pids=None if unlisted else ())])
    if peak is not None:
        watch.take([reading(peak, device)])
    watch.end([WORKER])
    return watch


def read(watch: MemoryWatch, machine: FakeMachine, *samples: Sample, seconds: float = 0.5) -> list[Release]:
    """Advance the clock, deliver the samples and make one step."""
    machine.now += seconds
    watch.take(samples)
    return watch.step()


def read_until_verdict(
    watch: MemoryWatch, machine: FakeMachine, memory: int | None, **options: object
) -> list[Release]:
    """Repeat the same reading until the watch returns a verdict."""
    for _ in range(200):
        if found := read(watch, machine, reading(memory, **options)):  # type: ignore[arg-type]
            return found
    raise AssertionError("the watch does not come to an end")
