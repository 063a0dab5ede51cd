"""Devices, plots and the check of the choices, with the stand-in for NVML.

Ready is said of GPUs only after the CUDA driver was asked: once, and again soon after a bad answer.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QLabel

from core.config.examination import BAD_S, GOOD_S, GpuCheck
from core.devices.cpu import cpu_devices
from core.devices.device import Device
from core.devices.nvidia import preflight
from core.errors import RunError
from gui.features.devices.rows import spoken
from tests.nvml.standin import uuid
from tests.support.devices import device_line
from tests.support.running import make_spec


def test_eight_gpus_are_listed_plotted_and_chosen_and_one_that_is_lost_stays_ticked(assemble, nvml):
    nvml.write(gpus=8, gpu0={"utilisation": 82, "memory_used": int(9.1 * 2**30), "temperature": 64, "power_mw": 312000})
    panel = assemble("run", "start", "devices")
    panel.until(lambda: len(panel.devices) == 10, "8 GPUs and 2 CPU devices")
    assert panel.device(uuid(0)).label == "GPU 0"
    panel.until(lambda: panel.device(uuid(0)).utilisation == "82 %")
    assert panel.device(uuid(0)).memory == "9.1 / 24 GB"
    panel.until(lambda: uuid(7) in panel.plot("memoryPlot").curves(), "8 lines")
    assert panel.plot("utilisationPlot").colours == {row.id: row.colour for row in panel.devices}
    panel.tick(uuid(5), uuid(2))
    panel.until(lambda: "Ready: GPU 2 and GPU 5 are free" in panel.start_status.text())
    assert panel.spec().devices == (uuid(2), uuid(5))
    panel.tick(uuid(5), "cpu:0")
    panel.until(lambda: "cannot be used together" in panel.start_status.text())
    panel.tick(uuid(2))
    nvml.write(gpu2={"lost": 1})
    panel.until(lambda: panel.device(uuid(2)).status.startswith("lost: "))
    panel.until(lambda: "GPU 2 is lost" in panel.start_status.text())
    lost, other = (device_line(panel.table, uuid(number)) for number in (2, 0))
    assert "lost" in spoken(lost)
    assert (lost.is_ticked, lost.row.utilisation, other.can_be_ticked) == (True, "–", True)
    nvml.write(gpu0={"utilisation": 17})
    panel.until(lambda: panel.device(uuid(0)).utilisation == "17 %", "new readings of the other GPUs")
    panel.tick()
    panel.until(lambda: "No device is ticked" in panel.start_status.text())
    assert not device_line(panel.table, uuid(2)).can_be_ticked


def test_driver_mismatch_shows_banner(assemble, nvml):
    nvml.write(gpus=2, init_error=18)
    panel = assemble("devices")
    banner = panel.window.findChild(QLabel, "driverBanner")
    panel.until(lambda: banner.isVisible() and "mismatch" in banner.toolTip(), "the banner")


@pytest.fixture
def asked(monkeypatch) -> list[tuple[str, ...]]:
    """The GPUs that the driver was asked about; it refuses the first time."""
    asked: list[tuple[str, ...]] = []

    def check(ids, environment, *, python):
        assert "TRAINYARD_RUN" not in environment
        assert environment["CUDA_VISIBLE_DEVICES"] == ",".join(ids)
        asked.append(tuple(ids))
        if len(asked) == 1:
            raise RunError("The library is missing.")

    monkeypatch.setattr(preflight, "check", check)
    return asked


def test_answers_are_remembered_and_bad_ones_only_for_a_moment(asked):
    now = [0.0]
    gpus = GpuCheck(lambda: now[0])
    devices = [Device(id=uuid(0), kind="nvidia", label="GPU 0", name="H100"), *cpu_devices()]
    on_cpu = make_spec("digits_mlp")
    spec = replace(on_cpu, devices=(uuid(0),))
    assert gpus.problem(on_cpu, devices) == ""
    assert asked == []
    assert [gpus.problem(spec, devices) for _ in range(3)] == ["The library is missing."] * 3
    assert len(asked) == 1
    now[0] += BAD_S
    assert [gpus.problem(spec, devices) for _ in range(3)] == [""] * 3
    assert len(asked) == 2
    now[0] += GOOD_S - 1
    assert gpus.problem(spec, devices) == ""
    assert len(asked) == 2


def test_start_is_not_offered_without_the_cuda_library(assemble, nvml, nvml_library, monkeypatch):
    nvml.write(gpus=1)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_library))  # without the folder of the CUDA library
    panel = assemble("start", "devices")
    panel.until(lambda: len(panel.devices) == 3, "the GPU")
    panel.tick(uuid(0))
    panel.until(lambda: "The CUDA driver's library cannot be used" in panel.start_status.text(), "the reason")
    assert not panel.start_button.isEnabled()
