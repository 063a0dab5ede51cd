"""The main workflow with real runs: tick, choose, start, watch, stop; and back to this machine."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from jeepney import MatchRule
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import open_dbus_connection
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QLabel, QLineEdit, QListView, QPlainTextEdit, QPushButton, QToolButton

from core.history.index import directories
from core.runs.facts import RunState
from core.schema.paths import EVENTS, SUPERVISOR_EVENTS, worker_events
from core.schema.settings import StopTimeouts
from core.schema.spec import read_spec, write_spec
from gui.features.setup import start as start_controller
from gui.plots.area import LIVE_NOTE
from gui.runs.rows import run_title
from tests.support.acting import played
from tests.support.long_run import write_long_run
from tests.support.recorded import recorded
from tests.support.running import FOREVER, LONG, make_spec, start, write_recipe
from tests.support.session_bus import session_bus
from tests.support.waiting import PATIENCE_S
from tests.support.written_runs import BEGAN, running_run, values, write_state
from tests.window.test_missed import write_live

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_run_is_started_watched_and_stopped_and_another_shows_its_result(drive):
    panel = drive()
    panel.tick("cpu:0", "cpu:1")
    panel.choose(panel.framework, "pytorch")
    panel.choose(panel.strategy, "ddp")
    panel.choose(panel.recipe, "digits_mlp")
    panel.set_number("epochsBox", FOREVER)
    panel.start()
    panel.until_state("Running")
    panel.until(lambda: panel.points("lossPlot") > 20, "points of the loss")
    panel.until(lambda: panel.points("utilisationPlot") > 1 and panel.points("memoryPlot") > 1, "samples")
    timer = panel.window.services.poll_timer
    live_ms = timer.interval_ms
    assert panel.run.spec().devices == ("cpu:0", "cpu:1")
    assert set(panel.plot("memoryPlot").curves()) == {"cpu:0", "cpu:1"}
    panel.until(lambda: "CPU 0 and CPU 1 are used by" in panel.start_status.text(), "its own devices shown as in use")
    panel.until(lambda: "samples/s" in panel.window.findChild(QLabel, "detailLabel").text(), "a throughput")
    panel.until(lambda: "/ " in panel.devices[0].memory and "–" not in panel.devices[0].memory)
    panel.stop()
    panel.until_state("Stopped")
    assert [state for _, state in panel.run.facts.history] == [
        RunState.STARTING, RunState.RUNNING, RunState.STOPPING, RunState.RELEASING, RunState.STOPPED,
    ]
    panel.until(lambda: panel.runs.count() == 1 and "stopped" in panel.runs.item(0).text(), "the run in the list")
    assert f"of {FOREVER}" in panel.runs.item(0).text()
    assert not panel.stop_button.isEnabled()
    panel.until(panel.start_button.isEnabled, "Start to come back")
    calm_ms = timer.interval_ms
    assert live_ms < calm_ms, "it polls less often where there is less to see"
    panel.tick("cpu:0")
    panel.choose(panel.strategy, "single")
    panel.set_number("epochsBox", 2)
    panel.start()
    panel.until_state("Finished")
    texts = [label.text() for label in panel.window.findChildren(QLabel)]
    assert "epoch 2 of 2" in texts
    assert any("took" in text for text in texts)
    assert panel.window.windowTitle().startswith("✓ digits_mlp single · epochs 2 · ")
    panel.until(lambda: panel.runs.count() == 2 and "finished · val. loss" in panel.runs.item(0).text())
    happened = panel.window.findChild(QListView, "eventList").model()
    rows = [happened.index(row, 0).data().partition("  ")[2] for row in range(happened.rowCount())]
    assert rows[1].startswith("Started on CPU 0: 1 process, Python ")
    assert any(row.startswith("Epoch 2: loss ") for row in rows)
    assert rows[-1] == "Finished."
    released = panel.window.findChild(QLabel, "releasedLabel")
    panel.until(lambda: released.text().startswith("memory released in "), "the verdict")
    memory = panel.plot("memoryPlot")
    panel.until(lambda: memory._note.text().startswith("✓ released in ") and memory.end.line.isVisible())
    panel.window.hide()
    assert calm_ms < timer.interval_ms, "it polls least where nothing is seen"


@pytest.mark.slow
def test_double_click_starts_one_run_and_a_second_one_starts_on_another_device(
    assemble, runs_root, qtbot, tmp_path, monkeypatch
):
    panel = assemble("run", "start", "devices")
    panel.tick("cpu:0")
    panel.set_number("epochsBox", FOREVER)
    panel.until(panel.start_button.isEnabled)
    for _ in range(3):
        qtbot.mouseClick(panel.start_button, Qt.MouseButton.LeftButton)
        qtbot.mouseDClick(panel.start_button, Qt.MouseButton.LeftButton)
    panel.until(lambda: "CPU 0 is used by" in panel.start_status.text(), "that its device is in use")
    assert len(directories(runs_root)) == 1
    assert panel.question() is None
    monkeypatch.setattr(start_controller, "DOUBLE_CLICK_S", 0.0)
    panel.until_state("Running")
    panel.tick("cpu:1")
    panel.open_recipe(write_recipe(tmp_path, LONG))
    panel.set_number("epochsBox", 1)
    panel.start()
    panel.until_state("Finished")
    assert len(directories(runs_root)) == 2
    panel.until(lambda: panel.runs.count() == 2)
    item = panel.runs.item(0)
    qtbot.mouseClick(panel.runs.viewport(), Qt.MouseButton.LeftButton, pos=panel.runs.visualItemRect(item).center())
    assert panel.run.dir == Path(item.data(Qt.ItemDataRole.UserRole))
    panel.until_state("Running")


@pytest.mark.styled
@pytest.mark.slow
def test_failing_recipe_shows_traceback(assemble, tmp_path, monkeypatch):
    source = LONG.replace("return [", 'raise RuntimeError("no such data")\n    return [')
    panel = assemble("run", "start", "log", "devices")
    panel.tick("cpu:0")
    panel.open_recipe(write_recipe(tmp_path, source, "broken"))
    panel.start()
    panel.until_state("Failed")
    assert panel.message() == ""
    card = panel.window.findChild(QFrame, "failureCard")
    assert card.isVisible()
    assert panel.window.findChild(QLabel, "failureTitle").text() == "RuntimeError"
    assert panel.window.findChild(QLabel, "failureSentence").text() == "no such data."
    assert panel.window.findChild(QLabel, "failurePlace").text() == "broken.py, line 5, in train_data()"
    error = panel.window.findChild(QPlainTextEdit, "errorView")
    assert "Traceback" in error.toPlainText()
    assert "broken.py" in error.toPlainText()
    panel.open_tab("Error")
    assert error.isVisible()
    panel.until(lambda: "RuntimeError: no such data" in panel.log.toPlainText(), "the end of the traceback in the log")
    opened = tmp_path / "opened"
    editor = tmp_path / "code"
    editor.write_text(f'#!/bin/sh\necho "$@" > {opened}.part && mv {opened}.part {opened}\n')
    editor.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for visual, words in (("vim", ""), (f"{editor} --wait", "--wait ")):
        monkeypatch.setenv("VISUAL", visual)
        monkeypatch.setenv("EDITOR", "nano")
        panel.qtbot.mouseClick(panel.window.findChild(QPushButton, "failureEditorButton"), Qt.MouseButton.LeftButton)
        panel.until(opened.exists, "the editor")
        assert opened.read_text() == f"{words}--goto {tmp_path / 'broken.py'}:5\n", "one in a terminal is passed over"
        opened.unlink()
    panel.qtbot.mouseClick(panel.window.findChild(QPushButton, "failureLogButton"), Qt.MouseButton.LeftButton)
    assert panel.log.isVisible()
    assert panel.log.textCursor().selectedText() == "RuntimeError: no such data"
    plots = panel.window.panels.plots.geometry()
    panel.qtbot.mouseClick(panel.window.findChild(QToolButton, "failureCloseButton"), Qt.MouseButton.LeftButton)
    assert not card.isVisible()
    panel.window.controllers.run.show_facts()
    assert not card.isVisible()  # it stays closed
    assert panel.window.panels.plots.geometry() == plots  # it took no room
    panel.until(lambda: panel.runs.count() == 1 and "failed · RuntimeError: no such data" in panel.runs.item(0).text())


@pytest.mark.slow
def test_ignored_stop_escalates_and_can_be_forced(assemble, runs_root, tmp_path):
    ignores_sigint = """\
        import signal, time

        def model():
            signal.signal(signal.SIGINT, signal.SIG_IGN)

        def train_data():
            return range(64)

        def loss():
            def measure(weight, items):
                print("SIGINT is ignored", flush=True)
                time.sleep(3600)
            return measure
    """
    stop_timeouts = StopTimeouts(ask_s=0.5, interrupt_s=PATIENCE_S, terminate_s=PATIENCE_S)
    start(make_spec(write_recipe(tmp_path, ignores_sigint), epochs=5, stop_timeouts=stop_timeouts), runs_root)
    panel = assemble("run", "log")
    panel.until(lambda: "SIGINT is ignored" in panel.log.toPlainText(), "the recipe to ignore SIGINT")
    panel.stop()
    assert panel.stop_button.text() == "Force"
    assert not panel.stop_button.isEnabled()  # a double click must not force
    detail = panel.window.findChild(QLabel, "detailLabel")
    panel.until(lambda: detail.text().startswith("stopping politely · interrupt · terminate in "), "the next steps")
    panel.stop()
    panel.until_state("Stopped")
    assert [step.name for step in panel.run.facts.stop_steps] == ["asked", "SIGINT", "SIGKILL"]
    assert panel.stop_button.text() == "Stop"


@pytest.mark.slow
def test_run_survives_killed_window_and_next_window_shows_it(drive, runs_root, tmp_path):
    recipe = write_recipe(tmp_path, LONG)
    code = f"""\
        import pathlib
        from PySide6.QtCore import QTimer
        from PySide6.QtWidgets import QApplication
        from gui.app import create_window
        app = QApplication([])
        window = create_window(pathlib.Path({str(runs_root)!r}))
        window.panels.devices.chosen.tick(["cpu:0"])
        window.panels.setup.open_recipe({recipe!r})
        window.panels.setup.findChild(object, "epochsBox").setValue({FOREVER})
        window.show()
        def start():
            if window.services.session.run is None:
                window.controllers.start.start()
        timer = QTimer(interval=50)
        timer.timeout.connect(start)
        timer.start()
        app.exec()
    """
    other = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT)
    panel = drive()
    panel.until(lambda: panel.runs.count() == 1 and "running" in panel.runs.item(0).text(), "the other window's run")
    other.kill()
    other.wait()
    panel.window.close()
    reopened = drive()
    reopened.until_state("Running")
    reopened.until(lambda: reopened.points("lossPlot") > 2)
    steps = reopened.window.services.session.run_series.metrics["loss"].steps
    assert steps[0] == 1  # the complete history
    assert len(steps) == steps[-1]
    reopened.stop()
    reopened.until_state("Stopped")


@pytest.mark.slow
def test_lost_run_is_shown_as_lost(assemble, runs_root, tmp_path):
    followed = start(played(tmp_path / "actor"), runs_root).until_trained()
    panel = assemble("run")
    panel.until_state("Running")
    os.kill(followed.run.facts.supervisor.pid, signal.SIGKILL)
    panel.until_state("Lost")
    assert "disappeared" in panel.window.findChild(QLabel, "failureTitle").text()
    panel.until(lambda: "lost" in panel.runs.item(0).text())
    assert not panel.stop_button.isEnabled()


@pytest.mark.slow
def test_window_follows_a_run_whose_folder_is_renamed(assemble, runs_root):
    run_dir = recorded(runs_root, last="stopped")
    panel = assemble("run")
    panel.open_run()
    panel.until_state("Stopped")
    panel.until(lambda: panel.points("lossPlot") > 0, "the curve")
    drawn = panel.points("lossPlot")
    write_spec(run_dir, read_spec(run_dir))  # as a resume that allows open ports does
    panel.window.services.session.poll()
    renamed = run_dir.rename(run_dir.with_name("20250615-140000-other-0000"))
    panel.until(lambda: panel.run.dir == renamed, "the new folder")
    assert panel.state.text() == "Stopped"
    assert panel.message() == ""
    panel.until(lambda: panel.points("lossPlot") == drawn, "the same curve")
    panel.until(lambda: str(renamed) == panel.runs.item(0).data(Qt.ItemDataRole.UserRole), "the new folder in the list")
    assert panel.runs.currentItem() is panel.runs.item(0)
    shutil.rmtree(renamed)
    panel.until(lambda: panel.runs.count() == 0, "an empty list")
    recorded(runs_root)
    panel.until(lambda: panel.runs.count() == 1, "another run")
    assert panel.run.dir == renamed, "a folder that was removed is not mistaken for another"


def test_messages_are_about_the_run_that_is_shown(assemble, runs_root):
    one = recorded(runs_root, last="paused")
    one.rename(one.with_name("20250615-140000-digits_mlp-0000"))
    recorded(runs_root)
    newer = runs_root / "20300101-000000-new-0000"
    newer.mkdir()
    (newer / "spec.json").write_text('{"version": 99, "name": "new"}')
    panel = assemble("run")
    panel.open_run(0, of=3)
    assert "newer Trainyard" in panel.message()
    panel.open_run(2, of=3)
    panel.until_state("Paused")
    assert panel.message() == ""
    assert panel.plot("memoryPlot").end.label.toPlainText() == "training paused"
    panel.window.panels.message.show_message("It could not be resumed.", "bad")
    panel.open_run(2, of=3)
    assert panel.message("messageStrip") == "It could not be resumed."
    panel.open_run(1, of=3)
    panel.until_state("Finished")
    assert panel.message("messageStrip") == ""


# -- this machine ----------------------------------------------------------------------------------


@pytest.fixture
def panel(drive, runs_root):
    """A window with a finished run and one that failed before anything was measured."""
    write_long_run(runs_root, steps=200, lines=10, rounds=10, name="20260101-000000-done-0000")
    failed = write_long_run(runs_root, steps=100, lines=1, rounds=1, name="20260102-000000-failed-0000")
    for path in (failed / EVENTS).iterdir():
        if path.name != SUPERVISOR_EVENTS:
            path.unlink()
    lines = (failed / EVENTS / SUPERVISOR_EVENTS).read_text().splitlines()
    last = {**json.loads(lines[-1]), "state": "failed", "error": "No CUDA."}
    (failed / EVENTS / SUPERVISOR_EVENTS).write_text("\n".join([*lines[:-1], json.dumps(last)]) + "\n")
    panel = drive()
    panel.until(lambda: panel.runs.count() == 2, "the runs")
    return panel


def test_page_of_the_machine_counts_the_active_runs_and_processes_name_them_by_their_start(assemble, runs_root):
    run_dir = write_live(runs_root, "20260101-000001-live")
    panel = assemble("run")
    panel.until_state("Running")
    services = panel.window.services
    names = services.process_scanner.runs().names
    assert names == {run_dir.name: run_title(services.run_list.summary(str(run_dir)), time.time())}
    panel.window.panels.menu.action("machine").trigger()
    panel.until_state("This machine")
    assert panel.window.findChild(QLabel, "descriptionLabel").text() == "1 run is active"


def entry(panel) -> QPushButton:
    return panel.window.findChild(QPushButton, "machineEntry")


def look_at(panel, row: int) -> None:
    panel.runs.itemClicked.emit(panel.runs.item(row))


@pytest.mark.styled
def test_entry_and_escape_lead_from_run_to_machine(panel):
    assert entry(panel).isChecked()
    bottom = entry(panel).mapToGlobal(entry(panel).rect().bottomLeft()).y()
    assert bottom <= panel.runs.mapToGlobal(panel.runs.rect().topLeft()).y()
    look_at(panel, 1)
    assert (panel.state.text(), entry(panel).isChecked()) == ("Finished", False)
    entry(panel).click()
    assert (entry(panel).isChecked(), panel.runs.currentRow()) == (True, -1)
    assert panel.state.text() == "No run"
    entry(panel).click()
    assert entry(panel).isChecked()
    look_at(panel, 1)
    panel.window.panels.menu.action("machine").trigger()
    assert (panel.state.text(), entry(panel).isChecked()) == ("No run", True)
    look_at(panel, 1)
    panel.runs.setFocus()
    panel.qtbot.keyClick(panel.runs, Qt.Key.Key_Escape)
    assert panel.state.text() == "No run"
    look_at(panel, 1)
    field = next(each for each in panel.window.findChildren(QLineEdit) if each.isVisible())
    field.setFocus()
    panel.qtbot.keyClick(field, Qt.Key.Key_Escape)
    assert (panel.state.text(), field.hasFocus()) == ("Finished", False), "in a field, it leaves only the field"
    panel.qtbot.keyClick(panel.window, Qt.Key.Key_Escape)
    assert panel.state.text() == "No run"

    look_at(panel, 0)
    live = panel.window.services.device_monitor.series
    assert panel.state.text() == "Failed"
    assert panel.plot("utilisationPlot").run_series is panel.plot("memoryPlot").run_series is live
    assert panel.plot("lossPlot").run_series is not live
    assert LIVE_NOTE in notes(panel, "memoryPlot"), "a start that failed leaves the live devices in sight"
    look_at(panel, 1)
    assert panel.plot("utilisationPlot").run_series is panel.window.services.session.run_series
    entry(panel).click()
    assert panel.plot("utilisationPlot").run_series is live
    assert LIVE_NOTE not in notes(panel, "utilisationPlot")
    assert not panel.plot("lossPlot").isVisible()


def notes(panel, plot: str) -> list[str]:
    return [each.text() for each in panel.plot(plot).findChildren(QLabel)]


def write_progress(run_dir: Path, steps: int) -> None:
    """Write that so many of 100 steps are done."""
    plan = {"t": BEGAN, "kind": "plan", "epochs": 2, "steps_per_epoch": 50, "samples_per_epoch": 50}
    lines = [plan, values(1, 0, steps, loss=[1.0] * steps)]
    (run_dir / EVENTS / worker_events(0)).write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_task_bar_shows_how_much_of_the_shown_or_only_run_is_done(assemble, runs_root, tmp_path):
    one = running_run(runs_root, "one")
    write_progress(one, 34)
    updates = []
    with session_bus(tmp_path) as address, open_dbus_connection(address) as connection:
        rule = MatchRule(type="signal", interface="com.canonical.Unity.LauncherEntry", member="Update")
        connection.send_and_get_reply(message_bus.AddMatch(rule))

        def shows(fraction: float | None) -> bool:
            with contextlib.suppress(TimeoutError):
                message = connection.receive(timeout=0.01)
                updates.extend([message.body] if rule.matches(message) else [])
            wanted = {"progress": ("d", fraction or 0.0), "progress-visible": ("b", fraction is not None)}
            return updates[-1:] == [("application://trainyard.desktop", wanted)]

        panel = assemble("run")
        panel.until(lambda: shows(0.34), "the progress of the shown run")
        panel.window.controllers.run.show_machine()
        write_progress(one, 50)
        panel.until(lambda: shows(0.5), "the progress of the only run")
        other = running_run(runs_root, "other")
        write_progress(other, 10)
        panel.until(lambda: shows(None), "that there are two")
        panel.window.controllers.run.attach_to(str(other))
        panel.until(lambda: shows(0.1), "the progress of the one that is shown")
        write_state(other, "releasing", "finished")
        panel.until(lambda: shows(0.5), "the progress of the one that goes on")
        write_state(one, "releasing", "finished")
        panel.until(lambda: shows(None), "the end")
