"""The device panel, with the stand-in for NVML."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel

from tests.nvml.standin import uuid


def test_eight_gpus_are_listed_and_plotted_and_lost_gpu_is_disabled(drive, nvml):
    nvml.write(gpus=8, gpu0={"utilisation": 82, "memory_used": int(9.1 * 2**30), "temperature": 64, "power_mw": 312000})
    panel = drive()
    panel.until(lambda: panel.table.rowCount() == 10, "8 GPUs and 2 CPU devices")
    first = panel.row_of(uuid(0))
    assert panel.table.item(first, 0).text().startswith("GPU 0")
    panel.until(lambda: panel.table.item(first, 1).text() == "82 %")
    assert panel.table.item(first, 2).text() == "9.1 / 24 GB"
    panel.until(lambda: uuid(7) in panel.plot("memoryPlot").curves(), "8 lines")
    third = panel.row_of(uuid(2))
    nvml.write(gpu2={"lost": 1})
    panel.until(lambda: panel.table.item(third, 3).text().startswith("lost: "))
    lost, other = panel.table.item(third, 0), panel.table.item(first, 0)
    assert "lost" in lost.text()
    assert not lost.flags() & Qt.ItemFlag.ItemIsUserCheckable
    assert panel.table.item(third, 1).text() == "–"
    assert other.flags() & Qt.ItemFlag.ItemIsUserCheckable
    nvml.write(gpu0={"utilisation": 17})
    panel.until(lambda: panel.table.item(first, 1).text() == "17 %", "new readings of the other GPUs")


def test_ticked_gpus_become_their_uuids_in_spec(drive, nvml):
    nvml.write(gpus=8)
    panel = drive()
    panel.until(lambda: panel.table.rowCount() == 10)
    panel.tick(uuid(5), uuid(2))
    panel.until(lambda: "Ready: GPU 2 and GPU 5 are free" in panel.start_status.text())
    assert panel.spec().devices == (uuid(2), uuid(5))
    panel.tick(uuid(5), "cpu:0")
    panel.until(lambda: "cannot be used together" in panel.start_status.text())


def test_lost_gpu_stays_ticked_and_is_reported(drive, nvml):
    nvml.write(gpus=2)
    panel = drive()
    panel.until(lambda: panel.table.rowCount() == 4)
    panel.tick(uuid(1))
    nvml.write(gpu1={"lost": 1})
    panel.until(lambda: "GPU 1 is lost" in panel.start_status.text())
    item = panel.table.item(panel.row_of(uuid(1)), 0)
    assert item.checkState() is Qt.CheckState.Checked
    item.setCheckState(Qt.CheckState.Unchecked)
    panel.until(lambda: "No device is ticked" in panel.start_status.text())


def test_driver_mismatch_shows_banner(drive, nvml):
    nvml.write(gpus=2, init_error=18)
    panel = drive()
    banner = panel.window.findChild(QLabel, "driverBanner")
    panel.until(lambda: banner.isVisible() and "mismatch" in banner.toolTip(), "the banner")


def test_click_and_space_key_toggle_device(drive, qtbot):
    panel = drive()
    item = panel.table.item(0, 0)
    middle = panel.table.visualItemRect(item).center()
    qtbot.mouseClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=middle)
    assert item.checkState() is Qt.CheckState.Checked
    panel.table.setCurrentCell(0, 0)
    qtbot.keyClick(panel.table, Qt.Key.Key_Space)
    assert item.checkState() is Qt.CheckState.Unchecked


def test_plot_colours_match_device_rows(drive):
    panel = drive()
    panel.until(lambda: len(panel.plot("utilisationPlot").colours) == 2)
    rows = {row.id: row.colour for row in panel.table.rows}
    assert panel.plot("utilisationPlot").colours == rows
