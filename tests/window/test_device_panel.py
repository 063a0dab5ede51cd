"""The device panel, with the stand-in for NVML."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel

from gui.features.devices.rows import spoken
from tests.nvml.standin import uuid
from tests.support.devices import device_line, index_of, place_of


def test_eight_gpus_are_listed_and_plotted_and_lost_gpu_is_disabled(drive, nvml):
    nvml.write(gpus=8, gpu0={"utilisation": 82, "memory_used": int(9.1 * 2**30), "temperature": 64, "power_mw": 312000})
    panel = drive()
    panel.until(lambda: len(panel.devices) == 10, "8 GPUs and 2 CPU devices")
    assert panel.device(uuid(0)).label == "GPU 0"
    panel.until(lambda: panel.device(uuid(0)).utilisation == "82 %")
    assert panel.device(uuid(0)).memory == "9.1 / 24 GB"
    panel.until(lambda: uuid(7) in panel.plot("memoryPlot").curves(), "8 lines")
    nvml.write(gpu2={"lost": 1})
    panel.until(lambda: panel.device(uuid(2)).status.startswith("lost: "))
    lost, other = (device_line(panel.table, uuid(number)) for number in (2, 0))
    assert "lost" in spoken(lost)
    assert not lost.can_be_ticked
    assert lost.row.utilisation == "–"
    assert other.can_be_ticked
    nvml.write(gpu0={"utilisation": 17})
    panel.until(lambda: panel.device(uuid(0)).utilisation == "17 %", "new readings of the other GPUs")


def test_ticked_gpus_become_their_uuids_in_spec(drive, nvml):
    nvml.write(gpus=8)
    panel = drive()
    panel.until(lambda: len(panel.devices) == 10)
    panel.tick(uuid(5), uuid(2))
    panel.until(lambda: "Ready: GPU 2 and GPU 5 are free" in panel.start_status.text())
    assert panel.spec().devices == (uuid(2), uuid(5))
    panel.tick(uuid(5), "cpu:0")
    panel.until(lambda: "cannot be used together" in panel.start_status.text())


def test_lost_gpu_stays_ticked_and_is_reported(drive, nvml):
    nvml.write(gpus=2)
    panel = drive()
    panel.until(lambda: len(panel.devices) == 4)
    panel.tick(uuid(1))
    nvml.write(gpu1={"lost": 1})
    panel.until(lambda: "GPU 1 is lost" in panel.start_status.text())
    assert device_line(panel.table, uuid(1)).is_ticked
    panel.tick()
    panel.until(lambda: "No device is ticked" in panel.start_status.text())


def test_driver_mismatch_shows_banner(drive, nvml):
    nvml.write(gpus=2, init_error=18)
    panel = drive()
    banner = panel.window.findChild(QLabel, "driverBanner")
    panel.until(lambda: banner.isVisible() and "mismatch" in banner.toolTip(), "the banner")


def test_click_and_space_key_toggle_device(drive, qtbot):
    panel = drive()
    line = device_line(panel.table, "cpu:0")
    qtbot.mouseClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=place_of(panel.table, line).center())
    assert panel.chosen.ticked == ("cpu:0",)
    index = index_of(panel.table, device_line(panel.table, "cpu:0"))
    assert index.data(Qt.ItemDataRole.CheckStateRole) is Qt.CheckState.Checked
    panel.table.setCurrentIndex(index)
    qtbot.keyClick(panel.table, Qt.Key.Key_Space)
    assert panel.chosen.ticked == ()
    assert index.data(Qt.ItemDataRole.CheckStateRole) is Qt.CheckState.Unchecked


def test_plot_colours_match_device_rows(drive):
    panel = drive()
    panel.until(lambda: len(panel.plot("utilisationPlot").colours) == 2)
    rows = {row.id: row.colour for row in panel.devices}
    assert panel.plot("utilisationPlot").colours == rows
