"""Hosts in the window, through a real ssh server: their sections, what is told of them, and the dialog.

A connection takes about half a second of processor time, half of it for the start of Trainyard on the other side.
"""

from functools import partial

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QMenu, QPushButton, QTableView

from core.config.choices import ScriptChoices
from core.config.script_check import ScriptCheckRequest, check_script, fill_in
from core.hosts import host_list, inquiry
from core.runs.facts import state_info
from core.runs.run import Run
from gui.features.devices.delegate import LINE
from gui.features.devices.panel import DeviceView
from gui.features.devices.rows import DeviceLine, HostLine, Line, NoteLine, RetryLine, spoken, tip
from tests.support.devices import device_line, index_of, line_of, place_of, shown_devices
from tests.support.running import FOREVER
from tests.support.ssh_server import TRAINYARD, add_host
from tests.support.tables import cell
from tests.support.waiting import wait_until
from tests.window.driving import menu_action

pytestmark = pytest.mark.usefixtures("patient_with_hosts")


class Hosts:
    """The sections of a window, through their widgets."""

    def __init__(self, panel) -> None:
        self.panel, self.window = panel, panel.window

    @property
    def view(self) -> DeviceView:
        return self.panel.table

    def line(self, kind: type[Line], host: str):
        """The line of a host, or None."""
        return line_of(self.view, kind, host)

    def words(self, host: str) -> str:
        line = self.line(HostLine, host)
        return line.heading.words if line else ""

    def note(self, host: str) -> str:
        return spoken(line) if (line := self.line(NoteLine, host)) else ""

    def shown(self, host: str) -> list[str]:
        """The ids of the devices that are shown."""
        return shown_devices(self.view, host)

    def press(self, line: Line) -> None:
        """Press Space on a line."""
        self.view.setCurrentIndex(index_of(self.view, line))
        self.panel.qtbot.keyClick(self.view, Qt.Key.Key_Space)

    def until_reachable(self, *hosts: str) -> None:
        for host in hosts:
            self.panel.until(lambda host=host: "reachable · clock" in self.words(host), f"{host} to be reachable")
            self.panel.until(lambda host=host: self.panel.chosen.rows_of(host), f"the devices of {host}")

    def tick(self, device: str) -> None:
        self.panel.chosen.toggle(device)

    def choose(self, text: str) -> None:
        """Choose an entry of the menu of the host one."""
        self.view.setCurrentIndex(index_of(self.view, self.line(HostLine, "one")))
        QApplication.sendEvent(self.view, QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, QPoint(), QPoint()))
        menu = next(each for each in self.window.findChildren(QMenu, "hostMenu") if each.isVisible())
        menu_action(menu, text).trigger()
        menu.close()


@pytest.fixture
def windows(drive):
    """Return a function that opens a window and gives access to its hosts."""
    return lambda: Hosts(drive())


@pytest.fixture
def hosts(assemble):
    """Return a function that shows devices, hosts and plots, without a window."""
    return lambda: Hosts(assemble("run", "devices", "host_list"))


@pytest.mark.slow
def test_devices_of_hosts_have_readings_names_and_colours_in_list_and_plots_and_a_menu_ticks_them(server, hosts):
    add_host("one")
    host_list.add(host_list.Host(name="second", address="two", command=str(TRAINYARD)))
    shown = hosts()
    shown.until_reachable("one", "second")
    assert shown.shown("one") == ["one/cpu:0", "one/cpu:1"]
    assert shown.shown("second") == ["second/cpu:0"]
    shown.panel.until(lambda: shown.panel.device("second/cpu:0").utilisation.endswith(" %"), "a reading")
    line, heading = device_line(shown.view, "second/cpu:0"), shown.line(HostLine, "second")
    assert spoken(line).startswith("second · CPU 0, ")
    assert "utilisation" in spoken(line)
    assert "second/cpu:0" in tip(line)
    assert spoken(heading).startswith("second, reachable, clock ")
    assert "Trainyard" in tip(heading)
    assert f"{server.folder}/two" in tip(heading)
    plot = shown.panel.plot("utilisationPlot")
    devices = {"one/cpu:0", "one/cpu:1", "second/cpu:0"}
    shown.panel.until(lambda: devices <= set(plot.shown(plot.run_series)), "the readings of all")
    rows = {row.id: row.colour for row in shown.panel.devices}
    assert {device: rows[device] for device in plot.colours} == rows
    assert len(set(rows.values())) == len(rows)
    assert plot.labels["second/cpu:0"] == "second · CPU 0"
    shown.panel.until(lambda: "second · CPU 0" in plot.canvas.accessibleDescription(), "the spoken values")
    reading = plot.reading_at(plot.canvas.x_range[1])
    assert {"one · CPU 0", "one · CPU 1", "second · CPU 0"} <= {row.label for row in reading.rows}
    shown.panel.tick("cpu:1")
    shown.choose("Tick all its devices")
    assert shown.panel.chosen.ticked == ("cpu:1", "one/cpu:0", "one/cpu:1")
    shown.choose("Untick its devices")
    assert shown.panel.chosen.ticked == ("cpu:1",)


@pytest.mark.slow
def test_folds_and_ticks_of_a_host_are_kept_and_name_it_also_in_its_absence(server, windows, qtbot):
    add_host("one")
    shown = windows()
    shown.until_reachable("one")
    shown.panel.tick("cpu:0")
    shown.tick("one/cpu:1")
    plot = shown.panel.plot("utilisationPlot")

    def drawn() -> set[str]:
        return {each.text for each in plot.margin.left}

    shown.panel.until(lambda: "one · CPU 0" in drawn(), "a strip")
    shown.press(shown.line(HostLine, "one"))
    assert shown.shown("one") == ["one/cpu:1"]
    assert "2 devices" in shown.line(HostLine, "one").heading.devices
    shown.panel.until(lambda: "one · CPU 0" not in drawn() and "one · CPU 1" in drawn(), "the ticked one only")
    shown.panel.until(shown.panel.start_button.isEnabled, "what the form says")
    assert shown.window.panels.setup.choices().devices == ("cpu:0", "one/cpu:1")
    shown.window.close()
    again = windows()
    again.until_reachable("one")
    assert again.line(HostLine, "one").is_folded
    again.panel.until(lambda: again.shown("one") == ["one/cpu:1"], "the ticked device")
    place = place_of(again.view, again.line(HostLine, "one")).center()
    qtbot.mouseClick(again.view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    # A host is reachable before it has listed its devices: until then only the ticked one is known.
    again.panel.until(lambda: again.shown("one") == ["one/cpu:0", "one/cpu:1"], "all devices")
    again.window.close()
    host_list.remove("one")
    host_list.add(host_list.Host(name="one", address="closed", command=str(TRAINYARD)))
    absent = windows()
    absent.panel.until(lambda: "not reachable" in absent.words("one"), "the failure")
    absent.panel.until(lambda: absent.shown("one") == ["one/cpu:1"], "its row, which may come a poll later")
    line = partial(device_line, absent.view, "one/cpu:1")
    assert line().is_ticked
    absent.panel.until(lambda: "one is not reachable" in tip(line()), "why it cannot be used")
    assert absent.window.panels.setup.choices().devices == ("cpu:0", "one/cpu:1"), "never a run on fewer devices"
    absent.panel.until(lambda: not absent.panel.start_button.isEnabled(), "the check of the choices")
    absent.press(line())
    assert absent.window.panels.setup.choices().devices == ("cpu:0",)


@pytest.mark.slow  # it starts PyTorch twice
def test_run_over_two_machines_is_started_and_drawn(server, windows, monkeypatch):
    monkeypatch.delenv("TRAINYARD_PYTHON_PYTORCH")
    add_host("one")
    shown = windows()
    shown.until_reachable("one")
    panel = shown.panel
    panel.tick("cpu:0")
    shown.tick("one/cpu:0")
    panel.set_number("epochsBox", 1)
    panel.until(lambda: panel.start_button.isEnabled() and "one · CPU 0" in panel.start_status.text(), "the check")
    panel.start()
    panel.until_state("Finished")
    spec = panel.run.spec()
    assert (spec.devices, spec.strategy) == (("cpu:0", "one/cpu:0"), "ddp")
    assert panel.points("lossPlot") > 0
    memory = panel.plot("memoryPlot")
    panel.until(lambda: {"cpu:0", "one/cpu:0"} <= set(memory.shown(memory.run_series)), "the memory of both machines")
    assert memory.labels["one/cpu:0"] == "one · CPU 0"
    assert "one/cpu:1" not in memory.labels, "no room is kept for names that are not in the run"


@pytest.mark.slow
def test_host_that_cannot_be_reached_is_asked_again_on_request_and_one_that_is_cut_by_itself(
    server, hosts, tmp_path, monkeypatch
):
    monkeypatch.setattr(inquiry, "FIRST_WAIT_S", 0.0)
    program, starts, shut = tmp_path / "trainyard-there", tmp_path / "starts", tmp_path / "shut"
    program.write_text(f"#!/bin/sh\necho failed >> {starts}\nexit 127\n")  # as a shell that finds no program
    program.chmod(0o755)
    add_host("one", command=program)
    shown = hosts()
    shown.panel.until(lambda: shown.words("one") == "not reachable", "the failure")
    assert shown.note("one").startswith(f"On one, {program} starts nothing.")
    assert shown.shown("one") == []
    button = shown.line(RetryLine, "one")
    assert "Try to reach one again" in spoken(button)
    mended, waits = tmp_path / "mended", f"while [ -e {shut} ]; do sleep 0.01; done"
    mended.write_text(f'#!/bin/sh\necho mended >> {starts}\n{waits}\nexec {TRAINYARD} "$@"\n')
    mended.chmod(0o755)
    mended.replace(program)
    shown.press(button)
    shown.until_reachable("one")
    assert starts.read_text().split() == ["failed", "mended"], "it was not asked by itself: only the user can mend this"
    assert shown.note("one") == ""
    assert shown.line(RetryLine, "one") is None

    monkeypatch.setattr(inquiry, "FIRST_WAIT_S", 0.5)
    shown.tick("one/cpu:0")
    (agent,) = server.agents()
    shut.touch()  # so that the cut lasts until it was seen
    agent.kill()
    shown.panel.until(lambda: shown.words("one") == "not reachable", "the cut")
    assert "What trains there goes on" in shown.note("one")
    assert shown.panel.device("one/cpu:0").utilisation == "–", "a missing reading is no zero"
    shut.unlink()
    shown.until_reachable("one")
    assert shown.panel.chosen.ticked == ("one/cpu:0",)
    shown.panel.until(lambda: shown.panel.device("one/cpu:0").utilisation.endswith(" %"), "a reading")


@pytest.mark.slow
def test_window_asks_a_host_only_while_it_can_be_seen_and_keeps_connection_and_ticks_in_another_language(
    server, windows
):
    add_host("one")
    shown = windows()
    shown.until_reachable("one")
    shown.window.hide()
    wait_until(lambda: not server.sessions(), "the connection to end")
    shown.window.show()
    shown.panel.until(server.agents, "another connection")
    shown.until_reachable("one")
    shown.panel.tick("cpu:0")
    shown.tick("one/cpu:1")
    agents = server.agents()
    shown.panel.until_replaced("zh_CN")
    other = Hosts(shown.panel)
    shown.panel.until(lambda: "可连接" in other.words("one"), "the host in the other language")
    assert device_line(other.view, "one/cpu:1").is_ticked
    assert other.window.panels.setup.choices().devices == ("cpu:0", "one/cpu:1")
    assert server.agents() == agents
    other.window.close()
    wait_until(lambda: not server.sessions(), "the connection to end")


def test_host_that_hangs_holds_up_neither_the_window_nor_its_end(server, windows, tmp_path):
    program = tmp_path / "hangs"
    program.write_text("#!/bin/sh\nexec cat > /dev/null\n")  # it never answers, and ends with the connection
    program.chmod(0o755)
    add_host("one", command=program)
    shown = windows()
    shown.panel.until(lambda: shown.words("one") == "connecting …", "the section")
    shown.panel.until(server.sessions, "the connection")
    for _ in range(20):
        shown.window.poll()
    # A poll that waited for the answer would go on when the host is given up: then it is not reachable.
    assert shown.words("one") == "connecting …"
    assert server.sessions()
    shown.window.close()
    wait_until(lambda: not server.sessions(), "the connection to end")


@pytest.mark.slow
def test_host_is_added_tested_and_removed_in_the_dialog(server, hosts, qtbot):
    shown = hosts()
    assert shown.shown("one") == []
    shown.window.panels.menu.action("hosts").trigger()
    dialog = shown.window.controllers.host_list._dialog
    result = dialog.findChild(QLabel, "hostResult")

    def add(address: str, name: str = "", command: str = "") -> None:
        for field, text in (("Address", address), ("Name", name), ("Command", command)):
            dialog.findChild(QLineEdit, f"host{field}Edit").setText(text)
        qtbot.mouseClick(dialog.findChild(QPushButton, "addHostButton"), Qt.MouseButton.LeftButton)

    add("-o nonsense")
    assert "is no address of a machine" in result.text()
    add("ray:auto")
    assert "Add them by the command: trainyard hosts add ray:auto." in result.text()
    add("closed")
    shown.panel.until(lambda: "accepts no connections by ssh" in result.text(), "the failure")
    assert result.text().endswith("The host was not added.")
    assert host_list.load().hosts == ()
    add("one", command=str(TRAINYARD))
    shown.panel.until(lambda: "one is reachable, Trainyard" in result.text(), "the answer")
    assert result.text().endswith("Its devices: CPU 0 and CPU 1.")
    assert [each.name for each in host_list.load().hosts] == ["one"]
    shown.until_reachable("one")
    table = dialog.findChild(QTableView, "hostTable")
    shown.panel.until(lambda: "reachable" in str(cell(table, 0, 2)), "its line")
    table.selectRow(0)
    qtbot.mouseClick(dialog.findChild(QPushButton, "testHostButton"), Qt.MouseButton.LeftButton)
    assert "Asking one" in result.text()
    shown.panel.until(lambda: "one is reachable" in result.text(), "the answer")
    add("one", name="ONE")
    assert "There is a host one already" in result.text()
    shown.tick("one/cpu:0")
    table.selectRow(0)
    qtbot.mouseClick(dialog.findChild(QPushButton, "removeHostButton"), Qt.MouseButton.LeftButton)
    assert "Its ticked devices are unticked: one · CPU 0." in shown.panel.question().text
    shown.panel.answer("yesButton")
    shown.panel.until(lambda: shown.line(HostLine, "one") is None, "its line to go")
    assert host_list.load().hosts == ()
    assert shown.panel.chosen.ticked == ()
    dialog.reject()


@pytest.mark.slow
def test_keys_lead_through_the_hosts_in_the_order_of_sight_and_scroll_to_them(server, hosts, tmp_path):
    add_host("one")
    add_host("closed", command=TRAINYARD)
    shown = hosts()
    shown.window.resize(1100, 560)
    shown.until_reachable("one")
    shown.panel.until(lambda: shown.note("closed"), "the failure")
    view, visited = shown.view, []
    view.setFocus()
    shown.panel.qtbot.keyClick(view, Qt.Key.Key_Home)
    while len(visited) < len(view.lines):
        line = view.currentIndex().data(LINE)
        visited.append((type(line), line.host))
        place = view.visualRect(view.currentIndex())
        assert 0 <= place.top() < view.viewport().height(), f"{line} is out of sight"
        shown.panel.qtbot.keyClick(view, Qt.Key.Key_Down)
    assert visited == [
        (DeviceLine, ""), (DeviceLine, ""), (HostLine, "one"), (DeviceLine, "one"), (DeviceLine, "one"),
        (HostLine, "closed"), (NoteLine, "closed"), (RetryLine, "closed"),
    ]


@pytest.mark.slow
def test_runs_on_a_host_are_chips_of_its_devices(server, hosts, tmp_path, script, monkeypatch):
    """The run is started as a user of the host would, in the folder of runs there."""
    monkeypatch.setattr(inquiry, "USES_PERIOD_S", 0.5)
    runs = tmp_path / "runs-there"
    add_host("one", command=f"{TRAINYARD} --runs {runs}")
    shown = hosts()
    shown.until_reachable("one")
    choices = ScriptChoices(script=str(script), arguments=(str(FOREVER),), devices=("cpu:0",), name="mine")
    devices = shown.window.services.device_monitor.survey.devices
    spec = fill_in(check_script(ScriptCheckRequest.of(choices)), choices, devices)
    run = Run.start(spec, runs)
    try:
        shown.panel.until(lambda: shown.panel.device("one/cpu:0").status == "runs mine", "the chip")
        assert shown.panel.device("one/cpu:1").status == ""
        assert shown.panel.devices[0].status == "", "it is not a run of this window's folder"
    finally:
        run.request("stop")
        run.request("force")
        wait_until(lambda: run.poll() is not None and state_info(run.facts.state).over, "the end of the run")
    shown.panel.until(lambda: shown.panel.device("one/cpu:0").status == "", "the chip to go")
