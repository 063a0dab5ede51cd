"""Devices, plots and the check of the choices, with the stand-in for NVML."""

from __future__ import annotations

from PySide6.QtWidgets import QLabel

from gui.features.devices.rows import spoken
from tests.nvml.standin import uuid
from tests.support.devices import device_line


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
