"""The queue in the window: add, see place and reason, move, hold, release, start now and remove."""

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction, QContextMenuEvent

from core.queue import control
from core.queue.listing import queue_view
from core.runs.facts import RunState
from core.runs.run import Run
from core.system import logout, processes
from gui.features.setup import start as start_controller
from gui.widgets.fields import WholeBox
from gui.widgets.table import ROW
from tests.support.queueing import Queue, kill, stop
from tests.support.running import LONG, Followed, write_recipe
from tests.support.waiting import wait_until


@pytest.fixture
def queue(tmp_path, runs_root) -> Queue:
    made = Queue(tmp_path)
    assert made.runs_root == runs_root
    return made


@pytest.fixture
def opened(assemble):
    """Return a function that makes what has to do with queued runs."""
    return lambda: assemble("run", "start", "queue", "devices")


def rows(panel) -> list[str]:
    return [panel.runs.item(row).text() for row in range(panel.runs.count())]


def item(panel, place: int):
    """A queued run, from 0: the runs that are running are above it."""
    items = [panel.runs.item(row) for row in range(panel.runs.count())]
    return [each for each in items if each.text()[1:3] == "  "][place]


def titles(panel) -> list[str]:
    """The titles of the queued runs in the list, with their places."""
    return [text.partition("\n")[0] for text in rows(panel) if text[:1].isdigit() and text[1:3] == "  "]


def act(panel, row: int, name: str) -> None:
    """Choose an action from the menu of a run."""
    menu = panel.runs.run_menu
    menu.show_run(item(panel, row).data(Qt.ItemDataRole.UserRole))
    menu.aboutToShow.emit()
    assert menu.action(name).isVisible()
    menu.action(name).trigger()


def act_on_all(panel, name: str) -> None:
    """Choose an action from the menu of a row of several runs, as a right click on it opens it."""
    place = middle(panel, 1)
    panel.runs.contextMenuEvent(QContextMenuEvent(QContextMenuEvent.Reason.Mouse, place, place))
    menu = panel.runs.several_menu
    menu.findChild(QAction, f"{name}SeveralAction").trigger()
    menu.close()


def middle(panel, row: int) -> QPoint:
    """The middle of a row below the heading that stands above it."""
    rect = panel.runs.visualItemRect(panel.runs.item(row))
    return QPoint(rect.center().x(), rect.bottom() - 8)


def order(queue: Queue) -> list[str]:
    return list(queue.rows())


@pytest.mark.slow
def test_busy_device_offers_the_queue_and_the_run_starts_when_it_is_free(opened, queue, tmp_path):
    busy = queue.start()
    panel = opened()
    panel.until_state("Running")
    panel.tick("cpu:0")
    panel.open_recipe(write_recipe(tmp_path / "mine", LONG, "mine"))
    panel.set_number("epochsBox", 2)
    panel.until(lambda: "is used by" in panel.start_status.text(), "the offer")
    panel.start_button.click()
    panel.answer("otherButton")
    panel.until(lambda: titles(panel) == ["1  mine"], "the queued run")
    assert panel.run.dir == busy.run.dir  # the window goes on showing what it showed
    panel.until(lambda: "CPU 0 is used by run recipe" in item(panel, 0).text(), "its reason")
    assert "Place 1 in your queue. It needs CPU 0." in item(panel, 0).toolTip()
    queued = Followed(Run.attach(Path(item(panel, 0).data(Qt.ItemDataRole.UserRole))))
    assert queued.poll().state is RunState.QUEUED
    stop(busy)
    panel.until(lambda: queued.poll().state is RunState.FINISHED, "the queued run to train")
    panel.until(lambda: titles(panel) == [], "the list to show that")


@pytest.mark.slow
def test_several_values_in_fields_queue_a_run_for_each_combination(opened, queue):
    busy = queue.start()
    panel = opened()
    panel.until_state("Running")
    panel.tick("cpu:0")
    epochs, batch = (panel.window.findChild(WholeBox, name) for name in ("epochsBox", "batchBox"))
    epochs.selectAll()
    panel.qtbot.keyClicks(epochs, "1,2")
    panel.set_text("rateEdit", "0.01, x")
    panel.until_status("Give a number greater than 0")
    panel.set_text("rateEdit", "0.01, 0")
    panel.until_status("Give a number greater than 0")
    panel.set_text("rateEdit", "0.01, 0.1")
    panel.until_status("Start adds 4 runs to the queue: epochs 1 and 2; learning rate 0.01 and 0.1.")
    batch.setFocus()
    assert (epochs.text(), epochs.value()) == ("1,2", 1)
    panel.start_button.click()
    sweep = "▸ 1  digits_cnn, sweep of 4\n0 of 4 done"
    panel.until(lambda: rows(panel)[1:] == [sweep], "the queued runs, in one row")
    assert "Added 4 runs of digits_cnn to the queue" in panel.window.panels.message.text
    folded = panel.runs.item(1).data(ROW)
    assert (folded.words, folded.of_day, folded.is_queued) == ("lr 0.01, 0.1 · epochs 1, 2", 1, True)
    waiting = [Followed(Run.attach(Path(each))) for each in folded.runs]
    found = [each.run.spec() for each in waiting]
    assert len({each.sweep for each in found}) == 1
    assert [(each.training.epochs, each.training.learning_rate) for each in found] == [
        (1, 0.01), (1, 0.1), (2, 0.01), (2, 0.1),
    ]
    panel.until(lambda: len(panel.window.services.queue.runs) == 4, "the queue to be read")
    assert [str(each.run_dir) for each in panel.window.services.queue.runs] == list(folded.runs), "whoever joined first"
    unfold_hold_and_fold(panel, queue, folded.runs)
    control.start_now(waiting[1].run.dir)
    waiting[1].until(RunState.FINISHED)
    best = "1 of 4 done, best val. loss"
    panel.until(lambda: panel.runs.item(1).data(ROW).outcome.startswith(best), "the first result")
    assert panel.runs.item(1).data(ROW).left.endswith(" · lr 0.1, epochs 1")
    panel.until(lambda: len(panel.window.services.queue.runs) == 3, "the queue to be read again")
    act_on_all(panel, "unqueue")
    assert "Remove 3 runs from the queue?" in panel.asked().text
    panel.answer("yesButton")
    panel.until(lambda: not queue_view(queue.runs_root).runs, "the others to be removed")
    assert busy.poll().state is RunState.RUNNING
    epochs.setValue(3)
    panel.until_status("Start adds 2 runs to the queue: learning rate 0.01 and 0.1.")
    stop(busy)


def unfold_hold_and_fold(panel, queue, run_dirs: tuple[str, ...]) -> None:
    """Unfold the row of four queued runs, and hold and release them all with its menu."""
    panel.qtbot.mouseClick(panel.runs.viewport(), Qt.MouseButton.LeftButton, pos=middle(panel, 1))
    assert rows(panel)[1].startswith("▾ 1  digits_cnn, sweep of 4")
    below = [text.partition("\n")[0] for text in rows(panel)[2:]]
    assert below == [
        "↳ 1  lr 0.01, epochs 1", "↳ 2  lr 0.1, epochs 1", "↳ 3  lr 0.01, epochs 2", "↳ 4  lr 0.1, epochs 2",
    ]
    assert panel.runs.ticked == list(run_dirs), "what was ticked as one row stays so"
    act_on_all(panel, "hold")
    panel.until(lambda: all(each.state == "held" for each in queue_view(queue.runs_root).runs), "all to be held")
    panel.qtbot.keyClick(panel.runs, Qt.Key.Key_Left)
    assert rows(panel)[1].startswith("▸ 1  digits_cnn, sweep of 4")
    panel.until(lambda: panel.runs.item(1).data(ROW).below == "held", "the row to say so")
    act_on_all(panel, "hold")
    panel.until(lambda: all(each.state == "queued" for each in queue_view(queue.runs_root).runs), "their release")


@pytest.mark.slow
def test_queued_runs_are_moved_dragged_held_released_and_removed(opened, queue):
    busy = queue.start()
    added = [queue.add(name) for name in ("one", "two", "three")]
    panel = opened()
    panel.until(lambda: titles(panel) == ["1  one", "2  two", "3  three"], "the queue in its order")
    act(panel, 2, "up")
    panel.until(lambda: order(queue) == ["one", "three", "two"], "the third to be second")
    panel.until(lambda: titles(panel) == ["1  one", "2  three", "3  two"], "the list to show that")
    panel.runs.setCurrentRow(1)
    panel.qtbot.keyClick(panel.runs, Qt.Key.Key_Down, Qt.KeyboardModifier.AltModifier)
    panel.until(lambda: titles(panel) == ["1  three", "2  one", "3  two"], "the first to be second")
    is_dragged = Qt.ItemFlag.ItemIsDragEnabled
    assert [bool(panel.runs.item(row).flags() & is_dragged) for row in range(4)] == [False, True, True, True]
    panel.runs.setCurrentRow(3)
    panel.runs.drop_chosen(panel.runs.visualItemRect(panel.runs.item(0)).topLeft() + QPoint(20, 3))
    panel.until(lambda: titles(panel) == ["1  two", "2  three", "3  one"], "the first place: it was dropped above it")
    panel.runs.setCurrentRow(1)
    panel.runs.drop_chosen(panel.runs.visualItemRect(panel.runs.item(3)).bottomLeft() + QPoint(20, -3))
    panel.until(lambda: titles(panel) == ["1  three", "2  one", "3  two"], "the first to be dragged to the last place")
    act(panel, 0, "hold")
    panel.until(lambda: item(panel, 0).text().endswith("\nheld"), "the first to be held")
    assert panel.runs.run_menu.action("hold").text() == "Hold"
    panel.runs.run_menu.aboutToShow.emit()
    assert panel.runs.run_menu.action("hold").text() == "Release"
    act(panel, 0, "hold")
    panel.until(lambda: "CPU 0 is used by" in item(panel, 0).text(), "the first to be released")
    act(panel, 2, "unqueue")
    panel.answer("yesButton")
    panel.until(lambda: titles(panel) == ["1  three", "2  one"], "the last to be removed")
    assert added[1].until_over().state is RunState.STOPPED
    act(panel, 0, "startNow")
    panel.answer("yesButton")
    added[2].until(RunState.FINISHED)
    assert busy.poll().state is RunState.RUNNING
    stop(added[0], added[2], busy)


@pytest.mark.slow
def test_shown_queued_run_is_stopped_and_kept_devices_are_named(opened, queue):
    busy = queue.start("cpu:0")
    big, small = queue.add("big", "cpu:0,cpu:1"), queue.add("small", "cpu:1")
    panel = opened()
    panel.until(lambda: len(titles(panel)) == 2, "the queued runs")
    panel.until(lambda: "kept for run big" in item(panel, 1).text(), "why the small one waits")
    kept = {row.id: row.status for row in panel.devices}
    panel.until(lambda: "Kept for run big" in _status(panel, "cpu:1"), f"for whom CPU 1 is kept: {kept}")
    assert "cpu:1" not in [row.id for row in panel.devices if row.free]
    panel.qtbot.mouseClick(
        panel.runs.viewport(), Qt.MouseButton.LeftButton, pos=panel.runs.visualItemRect(item(panel, 1)).center()
    )
    panel.until_state("Queued")
    assert panel.stop_button.isEnabled()
    progress = panel.window.panels.header.progress
    panel.until(lambda: progress.epoch.text() == "place 2 of 2", "its place in the header")
    assert progress.detail.text().startswith("CPU 1 is free, kept for run big, which needs 2")
    assert (panel.pause_button.text(), panel.pause_button.isEnabled()) == ("Start now", True)
    panel.pause_button.click()
    assert "Start small now, whoever uses its devices?" in panel.asked().text
    panel.answer("noButton")
    assert panel.stop_button.text() == "Remove from queue"
    panel.stop_button.click()
    panel.until_state("Stopped")
    assert small.until_over().state is RunState.STOPPED
    stop(big, busy)


@pytest.mark.slow
def test_window_takes_up_queued_runs_for_which_no_process_waits(opened, queue):
    busy, left = queue.start(), queue.add("left")
    waiter = left.run.facts.waiter
    kill(waiter.pid)
    wait_until(lambda: not processes.is_alive(waiter), "its end: the window looks for it once")
    panel = opened()
    panel.until(lambda: "left waits in the queue again." in panel.message("messageStrip"), "the message")
    panel.until(lambda: titles(panel) and "CPU 0 is used by" in item(panel, 0).text(), "the reason why it waits")
    stop(busy)
    assert left.until_over().state is RunState.FINISHED


@pytest.mark.slow
def test_menu_adds_to_the_queue_without_a_question_and_warns_of_a_log_out_once(opened, queue, tmp_path, monkeypatch):
    monkeypatch.setattr(logout, "at_logout", lambda: logout.LogOut(ends_manager=True))
    monkeypatch.setattr(start_controller, "DOUBLE_CLICK_S", 0.0)  # however fast the first run is
    panel = opened()
    panel.tick("cpu:0")
    panel.open_recipe(write_recipe(tmp_path / "mine", LONG, "mine"))
    panel.set_number("epochsBox", 1)
    panel.until_ready()
    add = panel.window.panels.menu.action("addToQueue")
    add.trigger()
    both = "Added mine to the queue. It starts when its devices are free. Logging out may end your runs, also queued"
    panel.until(lambda: panel.message("messageStrip").startswith(both), "the message")
    assert panel.message("messageStrip").endswith("To keep them running, enter once: loginctl enable-linger")
    panel.until(lambda: any("mine\nfinished" in text for text in rows(panel)), "the run to train at once")
    assert queue_view(queue.runs_root).runs == ()
    panel.until_ready()
    add.trigger()
    panel.until(lambda: sum("mine\nfinished" in text for text in rows(panel)) == 2, "the second run to train")
    assert "Logging out" not in panel.message("messageStrip")


def _status(panel, device: str) -> str:
    return next(row.status for row in panel.devices if row.id == device)
