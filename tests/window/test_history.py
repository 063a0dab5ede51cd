"""The list of runs in the window: search, star, tags, notes, archive, deletion, and lists of many runs."""

import shutil
import time
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetrics, QGuiApplication
from PySide6.QtWidgets import QLabel, QLineEdit

from core.history import marks, removal, trash
from core.history.marks import change_marks, read_marks, rename
from core.history.summary_cache import SummaryCache
from core.runs import lock
from gui.base.painting import elided
from gui.features.runlist.view import ROWS
from gui.runs import run_list
from gui.runs.run_list import FEW
from gui.widgets.dialogs import NameDialog
from tests.support.running import make_spec, script_spec, train
from tests.support.waiting import PATIENCE_S, wait_until
from tests.support.written_runs import values, write_run
from tests.window.driving import menu_action
from tests.window.test_missed import write_live


def write_runs(root: Path, count: int) -> list[Path]:
    """Write finished runs, the newest last; every third has another learning rate."""
    return [
        write_run(
            root, f"20260101-{number:06}-run-{number:04}", [values(1, 1, 2, loss=[2.0, 1.0 + number])],
            spec=make_spec("digits_mlp", learning_rate=0.5 if number % 3 == 0 else 0.1),
        )
        for number in range(count)
    ]


def copy_run(root: Path, count: int) -> None:
    """Write a run, and copies of it whose measurements are links."""
    first, *others = (root / f"20260101-{number:06}-run-{number:04}" for number in range(count))
    write_runs(root, 1)
    for each in others:
        each.mkdir()
        shutil.copy(first / "spec.json", each)
        for part in ("events", "log.txt"):
            (each / part).symlink_to(first / part)


def listed(panel) -> list[str]:
    items = [panel.runs.item(row).data(Qt.ItemDataRole.UserRole) for row in range(panel.runs.count())]
    return [text.rpartition("-")[2] for text in items]


def search(panel, text: str) -> None:
    field = panel.window.findChild(QLineEdit, "runFilter")
    field.selectAll()
    panel.qtbot.keyClicks(field, text)
    panel.qtbot.keyClick(field, Qt.Key.Key_Return)


def choose(panel, run_dir: Path, action: str) -> None:
    menu = panel.runs.run_menu
    menu.show_run(run_dir)
    menu.aboutToShow.emit()
    menu_action(menu, action).trigger()


@pytest.fixture
def show(assemble, runs_root: Path):
    """Return a function that writes runs and shows their list; it returns their folders, too."""

    def show_runs(count: int, *more: str):
        folders = write_runs(runs_root, count)
        return assemble("run", "history", *more), folders

    return show_runs


def test_the_field_filters_sorts_and_says_what_is_wrong(show, runs_root: Path) -> None:
    panel, _ = show(0)
    field = panel.window.findChild(QLineEdit, "runFilter")
    assert not field.isVisible(), "there is nothing to search"
    write_runs(runs_root, 6)
    panel.until(lambda: panel.runs.count() == 6, "the runs")
    assert field.isVisible()
    search(panel, "lr<0.2 sort:loss")
    assert listed(panel) == ["0001", "0002", "0004", "0005"]
    search(panel, "lr<abc")
    assert listed(panel) == ["0001", "0002", "0004", "0005"], "the list stays until the search can be understood"
    assert field.property("tone") == "bad"
    assert "Give a number" in field.toolTip()
    assert "Give a number" in field.accessibleDescription()
    search(panel, "tag:none")
    assert listed(panel) == []
    assert "fits none of the 6 runs" in field.toolTip()
    search(panel, "widht:3")
    assert "No run has widht." in field.toolTip()
    search(panel, "lr>0.2")
    assert listed(panel) == ["0003", "0000"]
    for number, rate in ((7, 0.1), (8, 0.9)):
        write_run(runs_root, f"20260102-00000{number}-000{number}", spec=make_spec("digits_mlp", learning_rate=rate))
    panel.until(lambda: listed(panel) == ["0008", "0003", "0000"], "the new run that fits")
    panel.qtbot.keyClick(field, Qt.Key.Key_Escape)
    assert field.text() == ""
    assert len(listed(panel)) == 8
    assert not field.property("tone")


def test_star_tags_notes_and_archive_come_from_the_menu(show, monkeypatch) -> None:
    panel, (first, second) = show(2)
    choose(panel, first, "Star")
    assert read_marks(first).star
    assert panel.runs.item(1).text().startswith("★ ")
    panel.runs.run_menu.aboutToShow.emit()
    choose(panel, first, "Remove star")
    assert not read_marks(first).star
    choose(panel, first, "Tags…")
    panel.enter_name("baseline, v2 baseline")
    assert read_marks(first).tags == ("baseline", "v2")
    assert panel.runs.item(1).text().endswith("baseline · v2")
    choose(panel, first, "Tags…")
    dialog = next(each for each in panel.window.findChildren(NameDialog) if each.isVisible())
    dialog.edit.setText("x" * 51)
    assert not dialog.yes.isEnabled()
    assert "cannot be a tag" in dialog.notice.text()
    dialog.edit.setText("")
    assert dialog.yes.isEnabled(), "all tags may be removed"
    panel.enter_name("v2")
    assert read_marks(first).tags == ("v2",)
    choose(panel, first, "Add note…")
    panel.enter_name("the one <b>to beat</b>")
    assert [note.text for note in read_marks(first).notes] == ["the one <b>to beat</b>"]
    assert "to beat" in panel.runs.item(1).toolTip()
    choose(panel, first, "Archive")
    assert listed(panel) == ["0001"]
    assert "archived:yes" in panel.message("messageStrip")
    search(panel, "archived:yes")
    assert listed(panel) == ["0000"]
    choose(panel, first, "Unarchive")
    assert listed(panel) == []
    choose(panel, second, "Archive")
    assert listed(panel) == ["0001"]
    monkeypatch.setattr(marks.os, "write", lambda handle, data: 0)
    choose(panel, second, "Star")
    assert "Free some space" in panel.message("messageStrip")
    assert not panel.runs.item(0).text().startswith("★")


@pytest.mark.slow
def test_many_runs_are_made_as_the_list_is_scrolled(show, runs_root: Path, monkeypatch) -> None:
    may_read, read_all = Event(), run_list._Reader.read_all

    def read_then(reader: run_list._Reader) -> object:
        may_read.wait(PATIENCE_S)
        return read_all(reader)

    monkeypatch.setattr(run_list, "BUDGET_S", 0.0)  # the thread reads all but the first run
    monkeypatch.setattr(run_list._Reader, "read_all", read_then)
    copy_run(runs_root, ROWS + 50)
    change_marks(runs_root / "20260101-000000-run-0000", star=True)
    panel, _ = show(0)
    left = panel.window.findChild(QLabel, "runsLeft")
    service = panel.window.services.run_list
    panel.until(left.isVisible, "the progress")
    assert left.text().endswith(f" of {ROWS + 50} runs read")
    may_read.set()
    panel.until(lambda: len(service.summaries) == ROWS + 50, "all runs")
    assert not left.isVisible()
    assert panel.runs.count() == ROWS
    bar = panel.runs.verticalScrollBar()
    bar.setValue(bar.maximum())
    assert panel.runs.count() == ROWS + 50
    assert listed(panel)[-1] == "0000"
    assert panel.runs.item(ROWS + 49).text().startswith("★ ")
    search(panel, "star:yes")
    assert listed(panel) == ["0000"], "among those that were not shown, too"


@pytest.mark.slow
def test_many_runs_are_listed_from_the_index_again(qtbot, runs_root: Path) -> None:
    many = FEW + 20

    def until_read() -> run_list.RunListService:
        service = run_list.RunListService(runs_root)
        qtbot.waitUntil(lambda: service.poll() is None and len(service.summaries) == many)
        return service

    copy_run(runs_root, many)
    first = until_read()
    qtbot.waitUntil(lambda: first.poll() is None and len(SummaryCache(runs_root).load()[0]) == many)
    rename(runs_root / "20260101-000000-run-0000", "another name")
    again = until_read()
    qtbot.waitUntil(lambda: again.poll() is None and again.summaries[-1].name == "another name")
    change_marks(runs_root / "20260101-000001-run-0001", archived=True)
    again.reread(runs_root / "20260101-000001-run-0001")  # waits for the thread, and reads it now
    assert len(again.found) == many - 1


def test_several_runs_are_archived_tagged_and_listed_again_at_once_but_not_those_of_others(show) -> None:
    panel, folders = show(4)
    change_marks(folders[1], add_tags=["old"])
    panel.until(lambda: panel.runs.item(2).text().endswith("old"), "the tag")
    panel.runs.tick([str(each) for each in folders[:3]])
    panel.window.panels.actions.do("tags", panel.runs.ticked)
    panel.enter_name("paper -old")
    assert [read_marks(each).tags for each in folders] == [("paper",), ("paper",), ("paper",), ()]
    assert len(panel.runs.ticked) == 3, "they are still ticked"
    panel.window.panels.actions.do("archive", panel.runs.ticked)
    assert listed(panel) == ["0003"]
    assert "Archived 3 runs." in panel.message("messageStrip")
    search(panel, "archived:yes")
    panel.runs.selectAll()
    panel.window.panels.actions.do("list", panel.runs.ticked)
    assert [read_marks(each).archived for each in folders] == [False] * 4
    search(panel, " ")
    service = panel.window.services.run_list
    service.summaries[:] = [
        replace(each, owner="anna") if each.dir == folders[0] else each for each in service.summaries
    ]
    panel.window.panels.actions.do("archive", [str(each) for each in folders[:2]])
    assert [read_marks(each).archived for each in folders[:2]] == [False, True]
    assert "1 run was left as it was." in panel.message("messageStrip")
    assert "belongs to anna" in panel.message("messageStrip")


def test_several_runs_are_deleted_after_one_question_except_one_that_runs(show, runs_root: Path) -> None:
    live = write_live(runs_root, "20260103-000000-live")
    panel, folders = show(3, "removal")
    panel.until(lambda: panel.runs.count() == 4, "the runs")
    panel.window.panels.actions.do("remove", [str(live)])  # it may have been resumed since the menu opened
    panel.until(lambda: "is running, so it was not removed" in panel.message("messageStrip"), "the reason")
    assert panel.question() is None
    panel.runs.tick([str(each) for each in [*folders[:2], live]])
    panel.runs.several_menu.popup_for(panel.runs.ticked, panel.window.pos())
    heading, first = panel.runs.several_menu.actions()[:2]
    assert (heading.isSeparator(), heading.isEnabled(), first.text()) == (False, False, "Compare")
    menu_action(panel.runs.several_menu, "Delete…").trigger()
    panel.runs.several_menu.close()
    text = panel.asked().text
    assert text.startswith("Delete 2 runs?")
    assert text.count(" kB)") == 2
    assert "1 run was left as it was." in text
    assert live.name in text
    panel.answer("yesButton")
    panel.until(lambda: panel.runs.count() == 2, "two runs")
    strip = panel.window.panels.message
    panel.until(lambda: strip.text == "Deleted 2 runs.", "the result")
    assert [each.exists() for each in [*folders, live]] == [False, False, True, True]
    strip.details.click()
    panel.until(lambda: panel.runs.count() == 4, "the restored runs")
    assert strip.text.startswith("Restored ")
    for each in folders[:2]:
        panel.window.panels.actions.do("remove", [str(each)])
        panel.answer("yesButton")
        panel.until(lambda: strip.text.startswith("Deleted "), "the deletion of one")
        strip.clear()
    assert [each.exists() for each in folders] == [False, False, True]
    for left in (folders[1], folders[0], None):
        panel.window.panels.menu.action("restoreRun").trigger()
        said = "There is no deleted run to restore." if left is None else f"Restored {left.name}."
        panel.until(lambda said=said: strip.text.startswith(said), "the last deletion to be undone first")
        assert left is None or left.is_dir()
    panel.window.panels.actions.do("remove", [str(folders[0])])
    panel.answer("yesButton")
    panel.until(lambda: strip.text.startswith("Deleted "), "the last deletion")
    trash.purge(runs_root, time.time() + trash.KEPT_S - 60)
    assert trash.place(folders[0]).is_dir()
    trash.purge(runs_root, time.time() + trash.KEPT_S + 60)
    assert not trash.place(folders[0]).exists()


def test_the_button_of_a_message_does_what_that_message_offers(show) -> None:
    panel, folders = show(4, "removal", "help")
    strip = panel.window.panels.message
    QGuiApplication.clipboard().setText("mine")
    for pair in (folders[:2], folders[2:]):
        panel.window.panels.actions.do("remove", list(map(str, pair)))
        panel.answer("yesButton")
        panel.until(lambda pair=pair: strip.is_open and not any(each.exists() for each in pair), "the deletion")
        strip.dismiss()
        assert strip.text == "Deleted 2 runs."
    strip.details.click()
    panel.until(lambda: strip.text.startswith("Restored "), "the last two runs")
    assert [each.exists() for each in folders] == [False, False, True, True]
    assert QGuiApplication.clipboard().text() == "mine"
    panel.window.panels.actions.do("remove", [str(folders[3])])
    panel.answer("yesButton")
    panel.until(lambda: strip.text.startswith("Deleted "), "the deletion of one")
    strip.show_message("Something went wrong in the window.", "bad", details=True, details_text="Copy report")
    strip.details.click()
    assert QGuiApplication.clipboard().text().startswith("Trainyard")
    panel.until_polled()
    assert not folders[3].exists()


def test_many_runs_are_looked_at_once_a_period(qtbot, runs_root: Path, monkeypatch) -> None:
    (run_dir,) = write_runs(runs_root, 1)
    monkeypatch.setattr(run_list, "FEW", 0)
    monkeypatch.setattr(run_list, "PERIOD_S", 1000.0)
    service = run_list.RunListService(runs_root)
    polls: list[float] = []
    poll = service._index.poll
    monkeypatch.setattr(service._index, "poll", lambda *args, **options: polls.append(0.0) or poll(*args, **options))
    service.poll()
    assert len(service.summaries) == 1
    service._polled_at = None
    service.poll()
    qtbot.waitUntil(lambda: service.poll() is None and not service._reading.busy)
    for _ in range(10):
        service.poll()
    assert len(polls) == 2
    service._polled_at = None
    service.poll()
    change_marks(run_dir, star=True)
    service.reread(run_dir)
    assert service.summaries[0].marks.star, "although the thread was reading"
    read = len(polls)
    change_marks(run_dir, star=False)
    service.reread(run_dir)
    assert not service.summaries[0].marks.star
    assert len(polls) == read, "no other run is looked at for that"
    shutil.rmtree(run_dir)
    service.reread(run_dir)
    assert service.summaries == []


def test_number_is_shown_whole_or_not_at_all(qapp) -> None:
    metrics = QFontMetrics(qapp.font())

    def cut(text: str, shown: str) -> str:
        """Return what is shown of a text where there is room for this, and an ellipsis."""
        return elided(metrics, text, metrics.horizontalAdvance(f"{shown}…"))

    for end in ("0.095", "0.09", "0.0", "0.", "0"):
        assert cut("finished · val. loss 0.0951234", f"finished · val. loss {end}") == "finished · val. loss…", end
    assert cut("stopped · epoch 2 of 300", "stopped · epoch 2 of 3") == "stopped · epoch 2 of…"
    assert cut("finished · v1.24-beta", "finished · v1.2") == "finished · v1.2…", "a name is no number"
    event = "epoch 6: loss 0.5123, 12\u2009345 samples/s"
    assert cut(event, "epoch 6: loss 0.51") == "epoch 6: loss…"
    assert cut(event, "epoch 6: loss 0.5123, 12") == "epoch 6: loss 0.5123…"
    assert elided(metrics, event, metrics.horizontalAdvance(event)) == event


# -- deleting runs ---------------------------------------------------------------------------------


@pytest.fixture
def ended(script, runs_root, monkeypatch):
    """A run that is over. Removing it waits until its supervisor has tidied up."""
    monkeypatch.setattr(lock, "PATIENCE_S", PATIENCE_S)
    run = train(script_spec(script, "1", cwd=script.parent), runs_root).run
    wait_until(lambda: not removal.why_not(run.dir), "the run to be removable")
    return run


@pytest.mark.slow
def test_run_is_deleted_after_confirmation_while_the_window_goes_on(assemble, ended, script, runs_root, monkeypatch):
    panel = assemble("run", "removal", "devices")
    panel.open_run()
    assert panel.state.text() == "Finished"
    delete = panel.window.panels.header.again.run_menu.action("remove").trigger
    delete()
    title, words = panel.asked().question.text(), panel.asked().words.text()
    assert title.startswith("Delete the run ")
    assert title.endswith(" train?")
    assert "It is finished and takes " in words
    assert " kB of disk." in words
    assert str(ended.dir) in words
    panel.answer("noButton")
    assert ended.dir.is_dir()
    proceed, remove = Event(), removal.remove

    def slow(run_dir):
        proceed.wait(PATIENCE_S)
        return remove(run_dir)

    monkeypatch.setattr(removal, "remove", slow)
    delete()
    try:
        panel.answer("otherButton")
        panel.until(lambda: panel.window.controllers.removal._removing.busy, "the removal")
        read = panel.window.services.device_monitor.survey.samples
        panel.until(lambda: panel.window.services.device_monitor.survey.samples != read, "newer readings")
        assert ended.dir.is_dir()
    finally:
        proceed.set()
    panel.until(lambda: panel.runs.count() == 0, "an empty list")
    panel.until(lambda: "Deleted train. " in panel.message("messageStrip"), "the result")
    assert panel.message("messageStrip").endswith(" kB of disk space.")
    assert panel.run is None
    assert not panel.window.panels.header.again.isEnabled()
    assert list(runs_root.iterdir()) == []
    assert script.exists()
