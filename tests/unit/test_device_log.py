"""Find the devices of a run, or report why they are missing."""

import json
from pathlib import Path

import pytest

from core.devices.device import Device, Sample, Survey
from core.devices.nvidia.preflight import TIMEOUT_S
from core.errors import RunError
from core.schema.paths import DEVICE_EVENTS, EVENTS
from core.supervisor.watches import DeviceLog

GPU = Device(id="GPU-1", kind="nvidia", label="GPU 0", name="RTX")
LATE = "NVIDIA devices have not answered within 20 s."


class Slow:
    """A sampler that takes `needs_s` seconds to answer, measured by a fake clock."""

    def __init__(self, needs_s: float, *devices: Device) -> None:
        self.now, self._needs_s, self._devices = 100.0, needs_s, devices

    def survey(self, timeout_s: float) -> Survey:
        self.now += min(self._needs_s, timeout_s)
        return Survey(devices=self._devices) if self._needs_s <= timeout_s else Survey(banner=LATE)

    def close(self) -> None:
        pass


def found(run_dir: Path, sampler: Slow) -> list[Device]:
    (run_dir / EVENTS).mkdir(exist_ok=True)
    readings = DeviceLog(run_dir, sampler, [GPU.id], clock=lambda: sampler.now)  # type: ignore[arg-type]
    try:
        return readings.find()
    finally:
        readings.close()


def test_slow_driver_is_not_reported_as_a_missing_device(tmp_path: Path) -> None:
    assert found(tmp_path, Slow(TIMEOUT_S - 0.1, GPU)) == [GPU], "the limit is that of the pre-flight check"
    with pytest.raises(RunError) as refused:
        found(tmp_path, Slow(1000, GPU))
    assert str(refused.value) == (
        f"Device GPU-1 was not listed within {TIMEOUT_S:g} s. {LATE} "
        "An idle driver can take this long to wake up. Start the run again."
    )
    with pytest.raises(RunError, match=r"^Device GPU-1 is not on this machine any more\. It was there when"):
        found(tmp_path, Slow(1))


def test_fault_is_recorded_once_and_again_when_it_changes(tmp_path: Path) -> None:
    (tmp_path / EVENTS).mkdir()
    said = [None, "It needs a reset.", "It needs a reset.", None, "It needs a reset.", "It needs a restart."]
    sampler = Slow(0)
    sampler.new_samples = lambda: [  # type: ignore[attr-defined]
        Sample(device_id=device, time=1.0, fault=fault) for fault in said for device in (GPU.id, "GPU-9")
    ]
    readings = DeviceLog(tmp_path, sampler, [GPU.id])  # type: ignore[arg-type]
    readings.take()
    readings.close()
    lines = [json.loads(line) for line in (tmp_path / EVENTS / DEVICE_EVENTS).read_text().splitlines()]
    assert [(each["device"], each["text"]) for each in lines if each["kind"] == "fault"] == [
        (GPU.id, "It needs a reset."), (GPU.id, "It needs a restart."),
    ], "a GPU of others is not the run's, and a missing answer is no cure"
    assert sum(each["kind"] == "sample" for each in lines) == len(said)


def test_clock_and_slowdown_are_recorded_only_where_there_are_any(tmp_path: Path) -> None:
    (tmp_path / EVENTS).mkdir()
    reasons = ("sync boost", "far too hot")
    hot = Sample(device_id=GPU.id, time=1.0, temperature_celsius=91.0, sm_clock_mhz=1200.0, clock_reasons=reasons)
    sampler = Slow(0)
    sampler.new_samples = lambda: [hot, Sample(device_id=GPU.id, time=2.0)]  # type: ignore[attr-defined]
    readings = DeviceLog(tmp_path, sampler, [GPU.id])  # type: ignore[arg-type]
    readings.take()
    readings.close()
    first, second = map(json.loads, (tmp_path / EVENTS / DEVICE_EVENTS).read_text().splitlines())
    assert (first["sm_clock_mhz"], first["slowdowns"]) == (1200.0, ["far too hot"]), "being in step is no trouble"
    assert second.keys() == {
        "t", "kind", "device", "utilisation_percent", "memory_used_bytes", "temperature_celsius", "power_watts"
    }
