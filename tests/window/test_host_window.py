"""A real window on the runs of another machine, through a real ssh server: nothing of this machine is taken for it.

Costs about half a minute: each test opens a window and trains a run with the fake worker.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QPushButton
from pytestqt.qtbot import QtBot

from core.hosts import mirror as mirroring
from core.hosts.host_list import Host
from core.hosts.mirror import Mirror
from core.queue.control import cancel
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.paths import RESERVE
from core.series.run_series import RunSeries
from gui.features.hosts import OFF
from gui.machine.host_machine import HostMachine
from tests.support.running import FOREVER, LONG, Followed, make_spec, start, write_recipe
from tests.support.ssh_server import TRAINYARD, SshServer
from tests.support.waiting import PATIENCE_S, wait_until
from tests.window.driving import Driver

pytestmark = pytest.mark.usefixtures("patient_with_hosts")


@pytest.fixture
def there(runs_root: Path) -> Path:
    """The folder of runs of the host."""
    runs_root.mkdir()
    return runs_root


@pytest.fixture
def own(there: Path, tmp_path: Path) -> Iterator[Followed]:
    """A run that somebody has started on the host, and that trains until it is stopped."""
    followed = start(make_spec(write_recipe(tmp_path, LONG), epochs=FOREVER), there).until_trained(20)
    yield followed
    if followed.run.dir.is_dir():
        end(followed)


def end(followed: Followed) -> None:
    followed.run.request("stop")
    followed.until_over()


@pytest.fixture
def open_window(
    qtbot: QtBot, ssh_server: SshServer, there: Path, fake_python: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Driver]]:
    """A function that opens a window on the host, and waits for the connection."""
    monkeypatch.setenv("PATH", str(ssh_server.folder / "bin"), prepend=os.pathsep)
    opened: list[Driver] = []

    def open_one() -> Driver:
        line = os.environ["TRAINYARD_QUEUE_DIR"]  # the runs that a test starts itself are in the host's queue, too
        command = f"env TRAINYARD_PYTHON_PYTORCH={fake_python} TRAINYARD_QUEUE_DIR={line} {TRAINYARD} --runs {there}"
        mirror = Mirror(Host(name="one", address="one", command=command))
        mirror.start()
        opened.append(Driver(qtbot, there.with_name("here"), HostMachine(mirror)))
        until_connected(opened[-1])
        return opened[-1]

    yield open_one
    for driver in opened:
        driver.close()
    wait_until(lambda: not ssh_server.sessions(), "the sessions of the ssh server to end")


def chip(driver: Driver) -> str:
    return driver.window.findChild(QLabel, "hostLabel").text()


def mirror_of(driver: Driver) -> Mirror:
    machine = driver.window.services.machine
    assert isinstance(machine, HostMachine)
    return machine.mirror


def until_connected(driver: Driver) -> None:
    driver.until(lambda: chip(driver) == "one" and mirror_of(driver).state.is_complete, "the connection")


def all_losses(run_dir: Path) -> list[tuple[float, float]]:
    """Return steps and losses that the run's own folder has."""
    followed = Followed(Run.attach(run_dir))
    followed.run_series.fold(followed.run.catch_up())
    series = followed.run_series.metrics["loss"]
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def shown_losses(driver: Driver) -> list[tuple[float, float]]:
    run_series = driver.window.services.session.run_series
    assert isinstance(run_series, RunSeries)
    series = run_series.metrics.get("loss")  # the window may not have read a loss yet
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True)) if series else []


@pytest.mark.slow
def test_run_is_started_paused_resumed_and_stopped_on_the_host(open_window, there):
    driver = open_window()
    assert driver.window.windowTitle() == "one – Trainyard"
    assert [row.id for row in driver.devices] == ["cpu:0", "cpu:1"], "the devices of the host"
    driver.tick("cpu:1")
    driver.window.panels.setup.choose_built_in("digits_cnn")
    driver.set_number("epochsBox", FOREVER)
    # With others, the one that is asked for would be the newest for a moment only.
    driver.choose(driver.box("checkpointUnitBox"), "never")
    driver.until_ready()
    driver.start()
    driver.until_state("Running")
    (run_dir,) = there.iterdir()
    assert driver.run.dir.name == run_dir.name
    assert driver.run.dir != run_dir
    title = r"(\d+ % )?digits_cnn( lr 0.05 · batch 64 · seed 0)? – one – Trainyard"
    assert re.fullmatch(title, driver.window.windowTitle())
    driver.until(lambda: driver.points("lossPlot") > 20, "a live curve")
    assert Run.attach(run_dir).spec().devices == ("cpu:1",)

    driver.until(driver.pause_button.isEnabled, "Pause")
    driver.qtbot.mouseClick(driver.pause_button, Qt.MouseButton.LeftButton)
    driver.until_state("Paused")
    driver.until(lambda: driver.pause_button.isEnabled() and "Resume" in driver.pause_button.text(), "Resume")
    driver.qtbot.mouseClick(driver.pause_button, Qt.MouseButton.LeftButton)
    driver.until_state("Running")
    save = driver.window.findChild(QPushButton, "saveButton")
    driver.until(save.isEnabled, "Save")
    driver.qtbot.mouseClick(save, Qt.MouseButton.LeftButton)
    driver.until(lambda: driver.window.services.session.facts.checkpoint is not None
                 and driver.window.services.session.facts.checkpoint.reason == "asked", "the checkpoint")
    driver.stop()
    driver.until_state("Stopped")
    driver.until(lambda: shown_losses(driver) == all_losses(run_dir), "every point once")
    assert driver.message("messageStrip") == ""


@pytest.mark.slow
def test_several_values_are_queued_on_the_host_and_are_one_row(open_window, own, there):
    driver = open_window()
    driver.until_state("Running")
    driver.tick("cpu:0")
    driver.window.panels.setup.choose_built_in("digits_cnn")
    driver.set_text("rateEdit", "0.01, 0")
    driver.until_status("Give a number greater than 0")
    driver.set_text("rateEdit", "0.01, 0.1")
    driver.until_status("Start adds 2 runs to the queue: learning rate 0.01 and 0.1.")
    driver.start_button.click()
    title = "▸ digits_cnn, sweep of 2"
    driver.until(lambda: title in [driver.runs.item(at).text().partition("\n")[0] for at in range(driver.runs.count())])
    queued = [Followed(Run.attach(each)) for each in there.iterdir() if each != own.run.dir]
    specs = sorted((each.run.spec() for each in queued), key=lambda spec: spec.training.learning_rate)
    assert [each.training.learning_rate for each in specs] == [0.01, 0.1]
    assert specs[0].sweep == specs[1].sweep != ""
    for each in queued:
        each.until(RunState.QUEUED)
        cancel(each.run.dir)
        assert each.until_over().states == [RunState.QUEUED, RunState.STOPPED]


@pytest.mark.slow
def test_cut_is_told_and_no_point_is_lost_or_twice(open_window, own, ssh_server, monkeypatch):
    driver = open_window()
    driver.until_state("Running")  # the newest live run is shown
    driver.until(lambda: driver.points("lossPlot") > 20, "a live curve")
    (agent,) = ssh_server.agents()
    mirror_of(driver).waits = PATIENCE_S, PATIENCE_S
    agent.suspend()
    monkeypatch.setattr(mirroring, "BEAT_S", 0.3)
    monkeypatch.setattr(mirroring, "SILENT_S", 1.5)
    driver.until(lambda: chip(driver) == "one · cut", "the cut")
    monkeypatch.setattr(mirroring, "SILENT_S", PATIENCE_S)
    agent.resume()
    assert "The connection to one is cut since " in driver.message("hostStrip")
    assert "trying again" in driver.message("hostStrip")
    own.until_trained(own.poll().run.facts.step + 200)
    shown = shown_losses(driver)
    driver.until_polled(2)
    assert driver.state.text() == "Running", "as it was last seen"
    assert shown_losses(driver) == shown
    driver.qtbot.mouseClick(driver.stop_button, Qt.MouseButton.LeftButton)
    assert "There is no connection to one, so nothing was asked of it." in driver.message("messageStrip")
    (retry,) = [
        each for each in driver.window.panels.host_message.findChildren(QPushButton) if each.text() == "Try now"
    ]
    driver.qtbot.mouseClick(retry, Qt.MouseButton.LeftButton)
    until_connected(driver)
    driver.until(lambda: driver.message("hostStrip") == "", "no message on the connection")
    driver.until(lambda: len(shown_losses(driver)) > len(shown) + 200, "what was measured meanwhile")
    driver.stop()
    driver.until_state("Stopped")
    own.until_over()
    driver.until(lambda: shown_losses(driver) == all_losses(own.run.dir), "every point once")


def name_of(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):  # it has ended
        return process.name()
    return ""


@pytest.mark.slow
def test_two_windows_show_one_host_and_closing_them_harms_nothing_and_leaves_no_process(open_window, own, ssh_server):
    first, second = open_window(), open_window()
    for driver in (first, second):
        driver.until_state("Running")
    first.window.close()
    before = len(shown_losses(second))
    second.until(lambda: len(shown_losses(second)) > before + 200, "the curve to go on in the second")
    second.window.close()
    wait_until(lambda: not ssh_server.sessions(), "the agents to end")
    wait_until(lambda: "ssh" not in map(name_of, psutil.Process().children(recursive=True)), "ssh to end")
    own.until_trained(own.poll().run.facts.step + 50)
    assert first.notices == second.notices == []


@pytest.mark.slow
def test_another_language_keeps_the_host_and_its_run(open_window, own, ssh_server):
    driver = open_window()
    driver.until_state("Running")
    agents, shown = ssh_server.agents(), driver.run.id
    driver.until_replaced("zh_CN")
    driver.until_state("运行中")
    until_connected(driver)
    assert (driver.run.id, ssh_server.agents()) == (shown, agents)
    driver.window.controllers.run.show_machine()
    driver.until_replaced("en")
    until_connected(driver)
    driver.until_polled(2)
    assert driver.run is None
    driver.window.close()
    wait_until(lambda: not ssh_server.sessions(), "the agent to end")


@pytest.mark.slow
def test_runs_are_marked_renamed_moved_and_deleted_on_the_host(open_window, own, there):
    end(own)
    shutil.copytree(own.run.dir, there / "other", ignore=shutil.ignore_patterns(RESERVE))  # it may go now
    driver = open_window()
    summary, root = driver.window.services.run_list.summary, mirror_of(driver).root
    copy, other = str(root / own.run.id), str(root / "other")
    driver.until(lambda: summary(copy) is not None and summary(other) is not None, "the runs")
    driver.window.panels.actions.do("star", [other])
    driver.window.controllers.export._rename(root / "other", "best")
    driver.until(lambda: summary(other).name == "best", "the name")
    driver.until(lambda: summary(other).marks.star, "the star")
    driver.window.panels.actions.do("remove", [other])
    assert any(f"one:{there / 'other'}" in each.text() for each in driver.asked().findChildren(QLabel))
    driver.answer("yesButton")
    driver.until(lambda: not (there / "other").exists(), "the run to be deleted there")
    driver.until(lambda: summary(other) is None, "the list without it")
    driver.window.controllers.run.attach_to(copy)
    driver.until(lambda: shown_losses(driver) == all_losses(own.run.dir), "its curve")
    new = own.run.dir.rename(there / "another-folder")
    driver.until(lambda: driver.run.dir.name == "another-folder", "the window to follow")
    driver.until(lambda: shown_losses(driver) == all_losses(new), "its curve")
    shutil.rmtree(new)
    driver.until(lambda: "was removed or renamed" in driver.message(), "the sentence")
    assert driver.state.text() == "Stopped"


@pytest.mark.slow
def test_nothing_of_this_machine_is_taken_for_the_host(open_window, there, tmp_path, monkeypatch):
    """A pid of the host means another process here: /proc is not asked about it, and nothing is signalled."""
    asked: list[str] = []
    for target in (
        "core.system.processes.send", "core.system.processes.tagged", "core.system.terminate.terminate",
        "core.history.removal.find_orphans", "core.system.processes.describe", "core.queue.control.revive",
    ):
        monkeypatch.setattr(target, lambda *_, target=target, **__: asked.append(target))
    own = start(make_spec(write_recipe(tmp_path, LONG), epochs=FOREVER), there).until_trained(20)
    driver = open_window()
    driver.until_state("Running")
    for tab in ("Processes", "Memory", "Settings", "Log", "Events"):
        driver.open_tab(tab)
        driver.until_polled(2)
    assert driver.window.panels.details.processes.table.rows == []
    menu = driver.window.panels.menu
    for name in OFF:
        assert not menu.action(name).isEnabled()
        assert "one" in menu.action(name).toolTip() or name == "copyRecipe"
    run_menu = driver.window.panels.header.again.run_menu
    run_menu.aboutToShow.emit()
    for name in ("folder", "model", "keep"):
        assert not run_menu.action(name).isEnabled()
        assert "one" in run_menu.action(name).toolTip()
    run_menu.action("path").trigger()
    assert f"one:{own.run.dir}" in driver.message("messageStrip")
    driver.stop()
    own.until(RunState.STOPPED)
    assert asked == []
