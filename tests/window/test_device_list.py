"""The list of devices: headings, users, heat, CPU devices in one line, ticking several at once, the menu."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QContextMenuEvent, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QMenu, QPushButton

from core.devices.device import Device, Sample, Survey
from gui.base.theme import DARK
from gui.features.devices.delegate import LINE, DeviceDelegate
from gui.features.devices.health import HealthDialog
from gui.features.devices.panel import DevicePanel
from gui.features.devices.rows import CpuLine, DeviceLine, ModelLine, effect, spoken, tip
from gui.features.devices.sums import MachineSums, machine_sums
from gui.machine.device_rows import CpuSummary, DeviceRow, DeviceRows, OnDevices, cpu_summary, free_devices
from tests.nvml.standin import uuid
from tests.support.devices import device_line, index_of, line_of, place_of, show_devices, shown_devices
from tests.window.driving import menu_action

pytestmark = pytest.mark.styled

GB = 2**30


def row(label: str, name: str = "H100", **values) -> DeviceRow:
    kind, _, number = label.partition(" ")
    ids = {"GPU": f"GPU-{number}", "CPU": f"cpu:{number}", "MIG": f"MIG-{number}"}
    readings = {"utilisation_percent": 0.0, "memory_used_bytes": 0, "memory_total_bytes": 80 * GB, **values}
    return DeviceRow(
        id=ids[kind], label=label, name=name, full_name=f"NVIDIA {name}", colour="#4d9bff",
        is_cpu=kind == "CPU", is_mig=kind == "MIG", **readings,
    )


GPUS = [row(f"GPU {number}", "H100" if number < 4 else "RTX 4090") for number in range(8)]
CPUS = [row(f"CPU {number}", "Xeon") for number in range(2)]


@pytest.fixture
def panel(hold) -> DevicePanel:
    return hold(DevicePanel(), 370, 600)


def names(table) -> list[str]:
    return [device_line(table, each).row.label for each in shown_devices(table)]


def click(table, line, *, key: bool = False) -> None:
    """Click in a line, or press Space on it."""
    if key:
        table.setCurrentIndex(index_of(table, line))
        QTest.keyClick(table, Qt.Key.Key_Space)
    else:
        table.scrollTo(index_of(table, line))
        place = place_of(table, line)
        QTest.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=place.center())


def fold_cpus(table, *, key: bool = False) -> None:
    click(table, line_of(table, CpuLine), key=key)


# -- headings ------------------------------------------------------------------------------------


def test_gpus_of_one_model_are_below_its_heading_in_the_order_of_the_driver(panel):
    table = panel.table
    show_devices(table, [*GPUS, *CPUS])
    shown = [each for each in table.lines if isinstance(each, ModelLine | DeviceLine)]
    assert [each.row.label if isinstance(each, DeviceLine) else spoken(each) for each in shown] == [
        "H100 4 ×", "GPU 0", "GPU 1", "GPU 2", "GPU 3", "RTX 4090 4 ×", "GPU 4", "GPU 5", "GPU 6", "GPU 7",
    ]
    show_devices(
        panel.table,
        [row("GPU 0", "T4"), row("MIG 1", "A100 MIG"), row("MIG 2", "A100 MIG"), row("GPU 3", "T4"), *CPUS],
    )
    found = [(each.name, each.times, each.first) for each in panel.table.lines if isinstance(each, ModelLine)]
    assert found == [("T4", "", "GPU-0"), ("A100 MIG", "2 ×", "MIG-1"), ("T4", "", "GPU-3")]


def test_keys_pass_over_headings_and_list_scrolls_to_what_is_new(panel, qtbot):
    panel.resize(370, 200)
    table = panel.table
    show_devices(table, GPUS)
    qtbot.waitUntil(lambda: table.viewport().height() > 100)
    table.setFocus()
    visited = []
    for key in (Qt.Key.Key_Home, *[Qt.Key.Key_Down] * 4, Qt.Key.Key_Up, Qt.Key.Key_End, Qt.Key.Key_Home):
        QTest.keyClick(table, key)
        visited.append(table.currentIndex().data(LINE).row.label)
    assert visited == ["GPU 0", "GPU 1", "GPU 2", "GPU 3", "GPU 4", "GPU 3", "GPU 7", "GPU 0"]
    assert table.verticalScrollBar().value() == 0, "the heading above the first device is in sight, too"
    show_devices(table, [*GPUS, *CPUS])

    def is_in_sight(line) -> bool:
        place = place_of(table, line)
        return 0 <= place.top() < place.bottom() <= table.viewport().height()

    qtbot.waitUntil(lambda: 100 < table.viewport().height() < place_of(table, line_of(table, CpuLine)).top())
    panel.chosen.tick(["cpu:0"])
    assert is_in_sight(device_line(table, "cpu:0"))
    table.setCurrentIndex(index_of(table, line_of(table, CpuLine)))
    fold_cpus(table, key=True)
    assert is_in_sight(device_line(table, "cpu:1"))
    assert is_in_sight(line_of(table, CpuLine))
    scrolled = table.verticalScrollBar().value()
    show_devices(table, [*GPUS[:4], *GPUS[5:], *CPUS])
    assert 0 < table.verticalScrollBar().value() <= scrolled
    assert isinstance(table.currentIndex().data(LINE), CpuLine), "it stays the current line"


def test_mouse_and_space_highlight_and_tick_a_device_and_no_heading(panel, qtbot):
    table = panel.table
    show_devices(table, GPUS)
    QApplication.processEvents()
    rects = [place_of(table, each) for each in (line_of(table, ModelLine), device_line(table, "GPU-0"))]
    heading, device = (rect.bottomRight() - QPoint(4, 4) for rect in rects)

    def colours() -> tuple[str, str]:
        image = table.viewport().grab().toImage()
        return image.pixelColor(heading).name(), image.pixelColor(device).name()

    plain = colours()
    qtbot.mouseMove(table.viewport(), device)
    qtbot.waitUntil(lambda: colours() == (plain[0], QColor(DARK.button).name()))
    qtbot.mouseMove(table.viewport(), heading)
    qtbot.waitUntil(lambda: colours() == plain)
    click(table, line_of(table, ModelLine))
    assert panel.chosen.ticked == ()
    click(table, device_line(table, "GPU-4"))
    assert panel.chosen.ticked == ("GPU-4",)
    index = index_of(table, device_line(table, "GPU-4"))
    assert index.data(Qt.ItemDataRole.CheckStateRole) is Qt.CheckState.Checked
    click(table, device_line(table, "GPU-4"), key=True)
    assert panel.chosen.ticked == ()
    assert index.data(Qt.ItemDataRole.CheckStateRole) is Qt.CheckState.Unchecked


# -- heights -------------------------------------------------------------------------------------


def height(table, device: str) -> int:
    return place_of(table, device_line(table, device)).height()


def test_rows_are_dense_with_many_gpus_grow_with_the_font_and_are_not_cut(panel):
    table, heights = panel.table, []
    for rows in ([*GPUS[:3], *CPUS], [*GPUS[:4], *CPUS], GPUS[:5]):
        show_devices(table, rows)
        heights.append(height(table, "GPU-1"))
    assert heights[0] == heights[1] > heights[2]
    show_devices(table, [*GPUS, *CPUS])
    fold_cpus(table)
    table.verticalScrollBar().setValue(0)
    for room in range(120, 560, 7):
        panel.resize(370, room)
        bottom = table.viewport().height()
        rects = [place_of(table, line) for line in table.lines]
        # Two pixels of the next line may be seen: there it paints nothing.
        cut = [rect for rect in rects if rect.top() + 2 < bottom < rect.bottom()]
        assert not cut, f"at a height of {room}"
    before = height(table, "GPU-1")
    panel.setStyleSheet("QWidget { font-size: 26px; }")
    assert height(table, "GPU-1") > before


# -- CPU devices ---------------------------------------------------------------------------------


def test_cpu_devices_are_one_line_until_it_is_clicked(panel):
    table = panel.table
    show_devices(table, CPUS)
    assert (names(table), line_of(table, CpuLine)) == (["CPU 0", "CPU 1"], None), "without GPUs they are listed"
    show_devices(table, [*GPUS, *CPUS])
    assert names(table) == [each.label for each in GPUS]
    assert table.lines[-1] is line_of(table, CpuLine), "it is below the last GPU"
    assert effect(table.lines[-1]) == "Show the CPU devices"
    fold_cpus(table, key=True)
    assert names(table)[-2:] == ["CPU 0", "CPU 1"]
    assert effect(line_of(table, CpuLine)) == "Hide the CPU devices that are not ticked"
    fold_cpus(table)
    assert names(table)[-1] == "GPU 7"


def test_ticked_cpu_device_is_never_hidden(panel):
    table, chosen = panel.table, panel.chosen
    chosen.tick(["cpu:1"])
    show_devices(table, [*GPUS, *CPUS])
    assert names(table)[-2:] == ["GPU 7", "CPU 1"], "it was ticked before the GPUs were found"
    fold_cpus(table)
    assert names(table)[-2:] == ["CPU 0", "CPU 1"]
    fold_cpus(table)
    assert names(table)[-2:] == ["GPU 7", "CPU 1"]
    click(table, device_line(table, "cpu:1"))
    assert names(table)[-2:] == ["GPU 7", "CPU 1"], "it does not vanish under the mouse"
    chosen.tick_only(["GPU-2"])
    fold_cpus(table)
    fold_cpus(table)
    assert names(table)[-1] == "GPU 7"
    chosen.tick(["cpu:0"])
    assert names(table)[-2:] == ["GPU 7", "CPU 0"]
    assert chosen.ticked == ("GPU-2", "cpu:0")


def test_ticks_click_and_current_line_survive_that_devices_come_and_go(panel, qtbot):
    table, chosen = panel.table, panel.chosen
    show_devices(table, GPUS)
    chosen.tick(["GPU-2", "GPU-3"])
    show_devices(table, [*GPUS[:2], *GPUS[3:]])
    assert (chosen.ticked, set(chosen.wanted)) == (("GPU-3",), {"GPU-2", "GPU-3"})
    show_devices(table, GPUS)
    assert chosen.ticked == ("GPU-2", "GPU-3")
    assert device_line(table, "GPU-2").is_ticked
    chosen.tick_only([])
    show_devices(table, GPUS[1:])
    at = table.visualRect(index_of(table, device_line(table, GPUS[1].id))).center()
    qtbot.mousePress(table.viewport(), Qt.MouseButton.LeftButton, pos=at)
    show_devices(table, [*GPUS[1:2], *GPUS[3:]])
    qtbot.mouseRelease(table.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert chosen.ticked == (GPUS[1].id,)
    show_devices(table, GPUS)
    table.setCurrentIndex(index_of(table, device_line(table, GPUS[2].id)))
    show_devices(table, [*GPUS[:2], *GPUS[3:]])
    assert table.currentIndex() == index_of(table, device_line(table, GPUS[3].id))


def test_line_of_cpu_devices_tells_load_and_host_memory(tmp_path):
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
    line = CpuLine(host="", summary=summary, is_folded=True, runs_root=tmp_path / "not" / "there" / "yet")
    assert "host memory 96.0 / 512 GB" in spoken(line)
    assert "Free disk space of " in tip(line)
    assert tip(line).endswith(" GB")
    assert "Host memory 96.0 / 512 GB" in tip(line)


@pytest.mark.parametrize(
    ("rows", "memory", "disk", "words"),
    [
        ([row("GPU 0", temperature_celsius=60, power_watts=900, power_limit_watts=1000, used_by="mnist"),
          row("GPU 1", temperature_celsius=76, power_watts=1200, power_limit_watts=1500), row("CPU 0")],
         (96, 512), 1229 * GB,
         ["2 GPUs, 1 free", "2.1 of 2.5 kW", "hottest GPU 1, 76 °C", "host memory 96 of 512 GB", "disk 1.2 TB free"]),
        ([row("GPU 0", power_watts=100, power_limit_watts=400), row("GPU 1"),
          row("GPU 2", power_watts=9, stale_age_s=9)],
         (None, 512), 34 * GB, ["3 GPUs, 2 free", "100 of 400 W (1 of 3 GPUs)", "disk 34.0 GB free"]),
        ([row("GPU 0", power_watts=100), row("GPU 1", power_watts=50, power_limit_watts=70), row("MIG 0")],
         (1, 24), None, ["2 GPUs, 2 free", "150 W", "host memory 1 of 24 GB"]),
        ([row("CPU 0"), row("CPU 1", used_by="mnist")], (None, None), None, ["2 CPU devices, 1 free"]),
    ],
)
def test_sums_have_what_is_known_and_say_of_how_many_gpus(hold, rows, memory, disk, words):
    """A missing reading is left out, and never zero."""
    used, total = (None if each is None else each * GB for each in memory)
    parts = machine_sums(rows, CpuSummary(count=2, host_used_bytes=used, host_total_bytes=total), disk)
    assert parts == words
    sums = hold(MachineSums(), 2000, 40)
    sums.show_sums(parts)
    assert sums.accessibleName() == " · ".join(words)
    assert sums._label.text().count("·") == len(words) - 1
    sums.resize(180, 40)
    QApplication.processEvents()
    assert sums._label.text().count("·") == 0, "what there is no room for is left out, not cut"


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
        power_watts=402.4, power_limit_watts=700, clock_reasons=("sync boost", "too hot"),
    )
    survey = Survey(devices=(gpu,), samples=(sample,))
    (found,) = DeviceRows().make(survey, {"g": "#ffffff"}, OnDevices(used_by={"g": "resnet_cats"}))
    assert (found.temperature, found.power_of_limit) == ("91 °C", "402 of 700 W")
    assert (found.hot, found.in_trouble) == (True, True)
    for text in (found.tip, found.accessible_text):
        assert "Slowed down: sync boost, too hot" in text
        assert "402 of 700 W" in text
        assert "runs resnet_cats" in text
    usual = replace(found, clock_reasons=("sync boost",), slowdowns=())
    assert (usual.hot, usual.in_trouble) == (False, False), "a GPU that waits for others does what it should"
    other = replace(found, slowdowns=("power supply",))
    assert (other.hot, other.in_trouble) == (False, True)
    faulty = replace(usual, fault="It needs a reset.")
    assert (faulty.hot, faulty.in_trouble, "It needs a reset." in faulty.tip) == (False, True, True)
    unknown = replace(found, power_limit_watts=None)
    assert unknown.power_of_limit == "402 W"
    outdated = replace(found, stale_age_s=9)
    assert (outdated.temperature, outdated.power, outdated.hot, outdated.slowed) == ("", "", False, "")


def colours_in(panel, device: str) -> set[str]:
    """Return the colours of the pixels of a device."""
    image = panel.table.viewport().grab(place_of(panel.table, device_line(panel.table, device))).toImage()
    return {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}


def test_hot_gpu_has_a_red_sign_and_limits_give_way_to_names(panel, qtbot):
    usual = {"temperature_celsius": 67.0, "power_watts": 400.0, "power_limit_watts": 700.0, "used_by": "resnet_cats"}
    hot = {**usual, "temperature_celsius": 91.0, "clock_reasons": ("too hot",), "slowdowns": ("too hot",)}
    show_devices(panel.table, [row("GPU 0", **usual), row("GPU 1", **hot)])
    QApplication.processEvents()
    bad = QColor(DARK.bad).name()
    assert bad not in colours_in(panel, "GPU-0")
    assert bad in colours_in(panel, "GPU-1")
    delegate = panel.table.itemDelegate()
    usual = {"temperature_celsius": 67.0, "power_watts": 400.0, "power_limit_watts": 700.0}
    show_devices(panel.table, [row("GPU 0", used_by="mnist", **usual)])
    assert delegate.shows_limits
    show_devices(panel.table, [row("GPU 0", used_by="a_run_with_a_long_name", **usual)])
    assert not delegate.shows_limits
    panel.resize(700, 300)
    qtbot.waitUntil(lambda: delegate.shows_limits)


def test_change_that_no_text_shows_is_not_painted(panel, monkeypatch, qtbot):
    values = {"temperature_celsius": 67.1, "power_watts": 400.1, "memory_used_bytes": 40 * GB}
    painted = []
    paint = DeviceDelegate.paint
    monkeypatch.setattr(
        DeviceDelegate, "paint", lambda self, *given: painted.append(given[2].data(LINE)) or paint(self, *given)
    )
    show_devices(panel.table, [row("GPU 0", **values), row("GPU 1", **values)])
    qtbot.waitUntil(lambda: len(painted) >= 3)
    QApplication.processEvents()
    painted.clear()
    little = {"temperature_celsius": 67.3, "power_watts": 400.3, "memory_used_bytes": 40 * GB + 1000}
    show_devices(panel.table, [row("GPU 0", **little), row("GPU 1", **{**little, "power_watts": 500.0})])
    qtbot.waitUntil(lambda: bool(painted))
    assert {each.row.id for each in painted} == {"GPU-1"}


# -- ticking several -------------------------------------------------------------------------------


def test_buttons_tick_free_all_and_none_but_one_mig_device_only(panel, hold):
    table, chosen, changes = panel.table, panel.chosen, []
    hold(panel.tick_bar)
    free, every, none = (panel.tick_bar.findChild(QPushButton, name) for name in ("tickFree", "tickAll", "tickNone"))
    chosen.changed.connect(changes.append)
    show_devices(table, [replace(GPUS[0], used_by="mnist"), GPUS[1], replace(GPUS[2], lost="Gone."), *CPUS])
    every.click()
    free.click()
    chosen.tick(["cpu:0"])
    none.click()
    assert changes == [("GPU-0", "GPU-1"), ("GPU-1",), ("GPU-1", "cpu:0"), ()], "one change for each click"
    show_devices(table, [CPUS[0], replace(CPUS[1], used_by="mnist")])
    every.click()
    assert chosen.ticked == ("cpu:0", "cpu:1")
    free.click()
    assert chosen.ticked == ("cpu:0",)
    rows = [row("MIG 0"), row("MIG 1")]
    assert free_devices(rows) == ("MIG-0", "MIG-1")
    show_devices(table, rows)
    chosen.tick_only(free_devices(rows))
    assert chosen.ticked == ("MIG-0",)


# -- the menu --------------------------------------------------------------------------------------


def menu_by_key(table, device: str) -> QMenu:
    table.setCurrentIndex(index_of(table, device_line(table, device)))
    QApplication.sendEvent(table, QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, QPoint(), QPoint()))
    return next(each for each in table.findChildren(QMenu, "deviceMenu") if each.isVisible())


def test_menu_key_opens_menu_of_device(panel):
    table, asked = panel.table, []
    unwell = []
    table.processes_asked.connect(asked.append)
    table.health_asked.connect(unwell.append)
    show_devices(table, [*GPUS[:2], replace(GPUS[2], blocked="It is in MIG mode.")])
    panel.chosen.tick(["GPU-0"])
    menu = menu_by_key(table, "GPU-1")
    menu_action(menu, "Copy UUID").trigger()
    assert QGuiApplication.clipboard().text() == "GPU-1"
    menu_action(menu, "Copy name").trigger()
    assert QGuiApplication.clipboard().text() == "NVIDIA H100"
    menu_action(menu, "Show its processes").trigger()
    assert asked == ["GPU-1"]
    menu_action(menu, "Health…").trigger()
    assert unwell == ["GPU-1"]
    menu_action(menu, "Tick only this device").trigger()
    assert panel.chosen.ticked == ("GPU-1",)
    menu.close()
    menu = menu_by_key(table, "GPU-2")
    assert not menu_action(menu, "Tick only this device").isEnabled()
    assert menu_action(menu, "Tick only this device").toolTip() == "It is in MIG mode."
    menu.close()


# -- the window ------------------------------------------------------------------------------------


def words_of(dialog: HealthDialog) -> str:
    return "\n".join(label.text() for label in dialog.findChildren(QLabel))


@pytest.mark.slow
def test_eight_gpus_are_in_sight_beside_the_training(drive, nvml):
    nvml.write(gpus=8, **{f"gpu{number}": {"name": "NVIDIA H100"} for number in range(4)})
    nvml.write(gpu2={"recovery": 1, "pcie_rx": 40000, "pcie_tx": 1500000, "temperature": 91, "clock_reasons": 0x20})
    panel = drive()
    panel.window.resize(1480, 900)
    panel.until(lambda: len(panel.devices) == 10, "8 GPUs and 2 CPU devices")
    table = panel.table

    def end() -> int:
        return place_of(table, line_of(table, CpuLine)).bottom()

    def words() -> str:
        return index_of(table, device_line(table, uuid(2))).data(Qt.ItemDataRole.AccessibleTextRole)

    panel.until(lambda: "91 °C, 20 of 450 W, Slowed down: too hot" in words(), "the heat of GPU 2")
    assert words().startswith("GPU 2, H100, utilisation ")
    panel.until(lambda: "host memory" in spoken(line_of(table, CpuLine)), "the memory of the machine")
    panel.until(lambda: end() <= table.viewport().height(), "all GPUs and the line below them")
    panel.until(lambda: not table.verticalScrollBar().isVisible(), "the end of the scroll bar")
    setup = panel.window.panels.setup

    def is_below() -> bool:
        top, end = setup.mapTo(panel.window, QPoint(0, 0)).y(), table.mapTo(panel.window, QPoint(0, table.height())).y()
        return top > end and setup.height() >= 250

    panel.until(is_below, "room for the form below them")
    table.processes_asked.emit(uuid(2))
    assert panel.window.panels.details.processes.isVisible()
    table.health_asked.emit(uuid(2))
    dialog = panel.window.findChild(HealthDialog)
    panel.until(lambda: "none" in words_of(dialog), "the health of GPU 2")
    assert "PCIe traffic\nnot measured" in words_of(dialog)
    assert not nvml.calls()["nvmlDeviceGetPcieThroughput gpu2"]
    dialog.findChild(QPushButton, "trafficButton").click()
    panel.until(lambda: "38 MB/s received and 1.4 GB/s sent by the GPU" in words_of(dialog), "the traffic")
    labels = [label for label in dialog.findChildren(QLabel) if label.wordWrap()]
    panel.until(lambda: all(label.height() >= label.heightForWidth(label.width()) for label in labels), "whole words")
    dialog.close()
    assert "cpu:0" not in shown_devices(table)
    fold_cpus(table)
    panel.window.close()
    reopened = drive()
    reopened.until(lambda: len(reopened.devices) == 10, "8 GPUs and 2 CPU devices")
    assert "cpu:0" in shown_devices(reopened.table), "they stay unfolded"
