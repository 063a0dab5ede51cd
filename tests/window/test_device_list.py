"""The list of devices: headings, users, heat, CPU devices in one line, ticking several at once, the menu."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QContextMenuEvent, QGuiApplication
from PySide6.QtWidgets import QApplication, QPushButton

from core.devices.device import Device, Sample, Survey
from gui.base.theme import DARK
from gui.features.devices.delegate import FOOT, HEADING, ROW, DeviceDelegate
from gui.features.devices.panel import DevicePanel
from gui.features.devices.table import DeviceMenu
from gui.machine.device_rows import DeviceRow, DeviceRows, OnDevices, cpu_summary, free_devices, headings
from tests.nvml.standin import uuid

pytestmark = pytest.mark.styled

GB = 2**30


def row(label: str, name: str = "H100", **values) -> DeviceRow:
    kind, _, number = label.partition(" ")
    ids = {"GPU": f"GPU-{number}", "CPU": f"cpu:{number}", "MIG": f"MIG-{number}"}
    readings = {"utilisation_percent": 0.0, "memory_used_bytes": 0, "memory_total_bytes": 80 * GB, **values}
    return DeviceRow(
        id=ids[kind], label=label, name=name, full_name=f"NVIDIA {name}", colour="#4d9bff",
        is_cpu=kind == "CPU", is_mig=kind == "MIG", **readings,
    )  # fmt: skip


GPUS = [row(f"GPU {number}", "H100" if number < 4 else "RTX 4090") for number in range(8)]
CPUS = [row(f"CPU {number}", "Xeon") for number in range(2)]


@pytest.fixture
def panel(qtbot) -> DevicePanel:
    found = DevicePanel()
    qtbot.addWidget(found)
    found.resize(370, 600)
    found.show()
    return found


def in_sight(table) -> list[str]:
    return [each.label for number, each in enumerate(table.rows) if not table.isRowHidden(number)]


# -- headings ------------------------------------------------------------------------------------


def test_gpus_of_one_model_are_below_its_heading_and_every_row_is_a_device(panel):
    table = panel.table
    table.show_rows([*GPUS, *CPUS])
    shown = {number: table.item(number, 0).data(HEADING) for number in range(table.rowCount())}
    assert {number: (each.name, each.times) for number, each in shown.items() if each} == {
        0: ("H100", "4 ×"),
        4: ("RTX 4090", "4 ×"),
    }
    assert [table.item(number, 0).data(Qt.ItemDataRole.UserRole) for number in range(table.rowCount())] == [
        each.id for each in (*GPUS, *CPUS)
    ]
    assert table.rowHeight(0) == table.rowHeight(4) > table.rowHeight(1), "room for the heading"


def test_headings_follow_the_order_of_the_driver():
    rows = [row("GPU 0", "T4"), row("MIG 1", "A100 MIG"), row("MIG 2", "A100 MIG"), row("GPU 3", "T4"), *CPUS]
    found = {number: (each.name, each.times) for number, each in headings(rows).items()}
    assert found == {0: ("T4", ""), 1: ("A100 MIG", "2 ×"), 3: ("T4", "")}
    assert headings(CPUS) == {}


def test_only_the_device_under_the_mouse_is_highlighted(panel, qtbot):
    table = panel.table
    table.show_rows(GPUS)
    QApplication.processEvents()
    rect = table.visualItemRect(table.item(4, 0))
    heading, device = rect.topLeft() + QPoint(4, 3), rect.bottomRight() - QPoint(4, 4)

    def colours() -> tuple[str, str]:
        image = table.viewport().grab().toImage()
        return image.pixelColor(heading).name(), image.pixelColor(device).name()

    plain = colours()
    qtbot.mouseMove(table.viewport(), rect.center())
    qtbot.waitUntil(lambda: colours() == (plain[0], QColor(DARK.button).name()))
    qtbot.mouseMove(table.viewport(), heading)
    qtbot.waitUntil(lambda: colours() == plain)


def test_click_on_heading_ticks_nothing(panel, qtbot):
    table = panel.table
    table.show_rows(GPUS)
    rect = table.visualItemRect(table.item(4, 0))
    heading, device = rect.topLeft() + QPoint(60, 5), rect.bottomLeft() + QPoint(60, -5)
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=heading)
    assert table.ticked() == ()
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=device)
    assert table.ticked() == ("GPU-4",)


# -- heights -------------------------------------------------------------------------------------


def test_only_gpus_count_for_the_dense_form(panel):
    heights = []
    for rows in ([*GPUS[:3], *CPUS], [*GPUS[:4], *CPUS], GPUS[:5]):
        panel.table.show_rows(rows)
        heights.append(panel.table.rowHeight(1))
    assert heights[0] == heights[1] > heights[2]


def test_no_row_is_cut_at_the_bottom(panel):
    table = panel.table
    table.show_rows([*GPUS, *CPUS])
    table.cpu_fold.click()
    table.verticalScrollBar().setValue(0)
    for height in range(120, 560, 7):
        panel.resize(370, height)
        bottom = table.viewport().height()
        rects = [table.visualItemRect(table.item(number, 0)) for number in range(table.rowCount())]
        # Two pixels of the next row may be seen: there it paints nothing.
        cut = [rect for rect in rects if rect.top() + 2 < bottom < rect.bottom() and rect is not rects[7]]
        assert not cut, f"at a height of {height}"
        device = rects[7].adjusted(0, 0, 0, -table.cpu_fold.height())
        assert not device.top() + 2 < bottom < device.bottom()


def test_line_of_cpu_devices_scrolls_into_sight_when_it_gets_the_focus(panel, qtbot):
    panel.activateWindow()
    panel.resize(370, 200)
    table, fold = panel.table, panel.table.cpu_fold
    table.show_rows([*GPUS, *CPUS])
    qtbot.waitUntil(lambda: 100 < table.viewport().height() < fold.geometry().top())
    fold.setFocus()
    qtbot.waitUntil(lambda: fold.geometry().bottom() < table.viewport().height())


def test_rows_grow_with_the_font(panel):
    table = panel.table
    table.show_rows(GPUS)
    before = table.rowHeight(1)
    panel.setStyleSheet("QWidget { font-size: 26px; }")
    assert table.rowHeight(1) > before


# -- CPU devices ---------------------------------------------------------------------------------


def test_cpu_devices_are_one_line_until_it_is_clicked(panel, qtbot):
    table, fold = panel.table, panel.table.cpu_fold
    table.show_rows(CPUS)
    assert (in_sight(table), fold.isVisible()) == (["CPU 0", "CPU 1"], False), "without GPUs they are listed"
    table.show_rows([*GPUS, *CPUS])
    assert in_sight(table) == [each.label for each in GPUS]
    assert fold.isVisible()
    assert not fold.isChecked()
    assert table.item(7, 0).data(FOOT)
    rect = table.visualItemRect(table.item(7, 0))
    assert fold.geometry().bottom() == rect.bottom(), "it is below the last GPU"
    fold.setFocus()
    qtbot.keyClick(fold, Qt.Key.Key_Space)
    assert in_sight(table)[-2:] == ["CPU 0", "CPU 1"]
    assert fold.isChecked()
    qtbot.mouseClick(fold, Qt.MouseButton.LeftButton)
    assert in_sight(table)[-1] == "GPU 7"


def test_ticked_cpu_device_is_never_hidden(panel, qtbot):
    table, fold = panel.table, panel.table.cpu_fold
    table.tick(["cpu:1"])
    table.show_rows([*GPUS, *CPUS])
    assert in_sight(table)[-2:] == ["CPU 0", "CPU 1"], "it was ticked before the GPUs were found"
    qtbot.mouseClick(fold, Qt.MouseButton.LeftButton)
    assert in_sight(table)[-2:] == ["GPU 7", "CPU 1"]
    table.tick_only(["GPU-2"])
    qtbot.mouseClick(fold, Qt.MouseButton.LeftButton)
    qtbot.mouseClick(fold, Qt.MouseButton.LeftButton)
    assert in_sight(table)[-1] == "GPU 7"
    table.item(8, 0).setCheckState(Qt.CheckState.Checked)
    assert in_sight(table)[-2:] == ["CPU 0", "CPU 1"]
    assert table.ticked() == ("GPU-2", "cpu:0")


def test_line_of_cpu_devices_tells_load_and_host_memory(panel, tmp_path):
    devices = tuple(
        Device(
            id=f"cpu:{number}", kind="cpu", label=f"CPU {number}", name="Xeon", cores=cores, memory_total_bytes=512 * GB
        )
        for number, cores in enumerate(((0, 1, 2), (3,)))
    )
    samples = (
        Sample(device_id="cpu:0", time=1, utilisation_percent=0.0),
        Sample(device_id="cpu:1", time=1, utilisation_percent=40.0),
    )
    summary = cpu_summary(Survey(devices=devices, samples=samples), 416 * GB)
    assert (summary.devices, summary.host_memory) == ("2 devices · 10 %", "host memory 96.0 / 512 GB")
    unread = cpu_summary(Survey(devices=devices[:1]), None)
    assert (unread.devices, unread.host_memory) == ("1 device · –", "host memory – / 512 GB")
    fold = panel.table.cpu_fold
    fold.runs_root = tmp_path / "not" / "there" / "yet"
    fold.show_summary(summary)
    assert "host memory 96.0 / 512 GB" in fold.accessibleName()
    assert "Free disk space of " in fold.tip()
    assert fold.tip().endswith(" GB")
    assert "Host memory 96.0 / 512 GB" in fold.tip()


# -- users and heat --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "free"),
    [
        ({}, True),
        ({"used_by": "mnist"}, False),
        ({"held_by": "blender (anna)"}, False),
        ({"utilisation_percent": 97.0}, False),
        ({"memory_used_bytes": 20 * GB}, False),
        ({"blocked": "It is in MIG mode."}, False),
        ({"lost": "Gone."}, False),
        ({"stale_age_s": 9}, False),
        ({"asleep": True}, False),
        ({"utilisation_percent": None, "memory_used_bytes": None}, True),
    ],
)
def test_gpu_is_called_free_only_if_nothing_uses_it(values, free):
    found = row("GPU 0", **values)
    assert found.free is free
    assert found.accessible_text.endswith(", free") is free


def test_row_tells_heat_power_and_why_it_is_slowed_down():
    gpu = Device(id="g", kind="nvidia", label="GPU 2", name="NVIDIA H100", memory_total_bytes=80 * GB)
    sample = Sample(
        device_id="g", time=1, utilisation_percent=61, memory_used_bytes=57 * GB, temperature_celsius=91,
        power_watts=402.4, power_limit_watts=700, clock_reasons=("power limit", "too hot"),
    )  # fmt: skip
    survey = Survey(devices=(gpu,), samples=(sample,))
    (found,) = DeviceRows().make(survey, {"g": "#ffffff"}, OnDevices(used_by={"g": "resnet_cats"}))
    assert (found.temperature, found.power_of_limit, found.hot, found.in_trouble) == (
        "91 °C",
        "402 of 700 W",
        True,
        True,
    )
    for text in (found.tip, found.accessible_text):
        assert "Slowed down: power limit, too hot" in text
        assert "402 of 700 W" in text
        assert "runs resnet_cats" in text
    usual = replace(found, clock_reasons=("power limit",), slowdowns=())
    assert (usual.hot, usual.in_trouble) == (False, False), "a GPU at its power limit does what it should"
    other = replace(found, slowdowns=("power supply",))
    assert (other.hot, other.in_trouble) == (False, True)
    unknown = replace(found, power_limit_watts=None)
    assert unknown.power_of_limit == "402 W"
    outdated = replace(found, stale_age_s=9)
    assert (outdated.temperature, outdated.power, outdated.hot, outdated.slowed) == ("", "", False, "")


def colours_in(panel, number: int) -> set[str]:
    """Return the colours of the pixels of a row."""
    image = panel.table.viewport().grab(panel.table.visualItemRect(panel.table.item(number, 0))).toImage()
    return {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}


def test_hot_gpu_has_a_red_sign_although_a_run_is_on_it(panel):
    usual = {"temperature_celsius": 67.0, "power_watts": 400.0, "power_limit_watts": 700.0, "used_by": "resnet_cats"}
    hot = {**usual, "temperature_celsius": 91.0, "clock_reasons": ("too hot",), "slowdowns": ("too hot",)}
    panel.table.show_rows([row("GPU 0", **usual), row("GPU 1", **hot)])
    QApplication.processEvents()
    bad = QColor(DARK.bad).name()
    assert bad not in colours_in(panel, 0)
    assert bad in colours_in(panel, 1)


def test_limits_are_left_out_where_names_need_the_room(panel, qtbot):
    delegate = panel.table.itemDelegateForColumn(0)
    usual = {"temperature_celsius": 67.0, "power_watts": 400.0, "power_limit_watts": 700.0}
    panel.table.show_rows([row("GPU 0", used_by="mnist", **usual)])
    assert delegate.shows_limits
    panel.table.show_rows([row("GPU 0", used_by="a_run_with_a_long_name", **usual)])
    assert not delegate.shows_limits
    panel.resize(700, 300)
    qtbot.waitUntil(lambda: delegate.shows_limits)


def test_change_that_no_text_shows_is_not_painted(panel, monkeypatch, qtbot):
    values = {"temperature_celsius": 67.1, "power_watts": 400.1, "memory_used_bytes": 40 * GB}
    painted = []
    paint = DeviceDelegate.paint
    monkeypatch.setattr(
        DeviceDelegate, "paint", lambda self, *given: painted.append(given[2].data(ROW).id) or paint(self, *given)
    )
    panel.table.show_rows([row("GPU 0", **values), row("GPU 1", **values)])
    qtbot.waitUntil(lambda: {"GPU-0", "GPU-1"} <= set(painted))
    QApplication.processEvents()
    painted.clear()
    little = {"temperature_celsius": 67.3, "power_watts": 400.3, "memory_used_bytes": 40 * GB + 1000}
    panel.table.show_rows([row("GPU 0", **little), row("GPU 1", **{**little, "power_watts": 500.0})])
    qtbot.waitUntil(lambda: bool(painted))
    assert set(painted) == {"GPU-1"}


# -- ticking several -------------------------------------------------------------------------------


def test_buttons_tick_free_all_and_none(panel, qtbot):
    table, changes = panel.table, []
    qtbot.addWidget(panel.tick_bar)
    free, every, none = (panel.tick_bar.findChild(QPushButton, name) for name in ("tickFree", "tickAll", "tickNone"))
    table.ticks_changed.connect(lambda: changes.append(table.ticked()))
    table.show_rows([replace(GPUS[0], used_by="mnist"), GPUS[1], replace(GPUS[2], lost="Gone."), *CPUS])
    every.click()
    free.click()
    table.tick(["cpu:0"])
    none.click()
    assert changes == [("GPU-0", "GPU-1"), ("GPU-1",), ("GPU-1", "cpu:0"), ()], "one change for each click"
    table.show_rows([CPUS[0], replace(CPUS[1], used_by="mnist")])
    every.click()
    assert table.ticked() == ("cpu:0", "cpu:1")
    free.click()
    assert table.ticked() == ("cpu:0",)


def test_all_ticks_one_mig_device_only(panel):
    rows = [row("MIG 0"), row("MIG 1")]
    assert free_devices(rows) == ("MIG-0", "MIG-1")
    panel.table.show_rows(rows)
    panel.table.tick_only(free_devices(rows))
    assert panel.table.ticked() == ("MIG-0",)


# -- the menu --------------------------------------------------------------------------------------


def press_menu_key(widget) -> None:
    QApplication.sendEvent(widget, QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, QPoint(), QPoint()))


def test_menu_key_opens_menu_of_device(panel, qtbot):
    table, asked = panel.table, []
    table.processes_asked.connect(asked.append)
    table.show_rows([*GPUS[:2], replace(GPUS[2], blocked="It is in MIG mode.")])
    table.tick(["GPU-0"])
    table.setCurrentCell(1, 0)
    press_menu_key(table)
    menu = table.findChild(DeviceMenu)
    assert menu.isVisible()
    menu.copy_id.trigger()
    assert QGuiApplication.clipboard().text() == "GPU-1"
    menu.copy_name.trigger()
    assert QGuiApplication.clipboard().text() == "NVIDIA H100"
    menu.processes.trigger()
    assert asked == ["GPU-1"]
    menu.tick_only.trigger()
    assert table.ticked() == ("GPU-1",)
    menu.close()
    table.setCurrentCell(2, 0)
    press_menu_key(table)
    assert not menu.tick_only.isEnabled()
    menu.close()


# -- the window ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_eight_gpus_are_in_sight_beside_the_training(drive, nvml):
    nvml.write(gpus=8, **{f"gpu{number}": {"name": "NVIDIA H100"} for number in range(4)})
    nvml.write(gpu2={"temperature": 91, "clock_reasons": 0x20})
    panel = drive()
    panel.window.resize(1480, 900)
    panel.until(lambda: panel.table.rowCount() == 10, "8 GPUs and 2 CPU devices")
    table, fold = panel.table, panel.table.cpu_fold

    def spoken() -> str:
        return table.item(2, 0).data(Qt.ItemDataRole.AccessibleTextRole)

    panel.until(lambda: "91 °C, 20 of 450 W, Slowed down: too hot" in spoken(), "the heat of GPU 2")
    assert spoken().startswith("GPU 2, H100, utilisation ")
    panel.until(lambda: "host memory" in fold.accessibleName(), "the memory of the machine")
    panel.until(lambda: fold.geometry().bottom() <= table.viewport().height(), "all GPUs and the line below them")
    panel.until(lambda: not table.verticalScrollBar().isVisible(), "the end of the scroll bar")
    setup = panel.window.panels.setup

    def is_below() -> bool:
        top, end = setup.mapTo(panel.window, QPoint(0, 0)).y(), table.mapTo(panel.window, QPoint(0, table.height())).y()
        return top > end and setup.height() >= 250

    panel.until(is_below, "room for the form below them")
    table.processes_asked.emit(uuid(2))
    assert panel.window.panels.details.processes.isVisible()
    assert table.isRowHidden(8)
    fold.click()
    panel.window.close()
    reopened = drive()
    reopened.until(lambda: reopened.table.rowCount() == 10, "8 GPUs and 2 CPU devices")
    assert not reopened.table.isRowHidden(8), "they stay unfolded"
