"""Help, "Check this machine…": rows fill in while the checks run, say what helps, and can be copied for an issue."""

from dataclasses import replace
from threading import Event

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QPushButton

from core.check import table
from core.check.check import CouldNotLook, Level, NotApplicable, Problem, State
from core.errors import RunError
from core.launchers import p2p
from gui.features.check import dialog as dialog_module
from gui.features.check.dialog import CheckDialog
from tests.nvml.standin import uuid
from tests.support.waiting import PATIENCE_S


def well(scope):
    return "all of it"


def ill(scope):
    raise Problem(f"one is missing: {uuid(0)}", "Buy another one.", scope.devices[:1])


def hidden(scope):
    raise CouldNotLook("it is dark")


def elsewhere(scope):
    raise NotApplicable("there is none")


def rows(looks) -> tuple:
    return tuple(
        replace(check, look=look) for check, look in zip(table.CHECKS, looks, strict=False)
    )


def test_rows_fill_in_say_what_helps_and_are_copied_without_names(assemble, monkeypatch, qtbot) -> None:
    monkeypatch.setattr(table, "CHECKS", rows((well, ill, hidden, elsewhere)))
    driver = assemble("check", "devices")
    menu, message = driver.window.panels.menu, driver.window.panels.message
    menu.action("checkMachine").trigger()
    dialog = driver.window.findChild(CheckDialog)
    begin, share, copy = (dialog.findChild(QPushButton, name)
                          for name in ("beginCheckButton", "shareCheckButton", "copyRemedyButton"))
    remedy, closing = (dialog.findChild(QLabel, name) for name in ("checkRemedy", "checkClosing"))
    assert (begin.isEnabled(), share.isEnabled(), copy.isEnabled()) == (True, False, False)
    begin.click()
    begin.click()
    assert not begin.isEnabled()
    driver.until(begin.isEnabled)
    model = dialog._table.model()
    shown = [[model.index(row, column).data() for column in range(3)] for row in range(model.rowCount())]
    assert [row[1:] for row in shown] == [
        ["Pass", "all of it"], ["Problem", f"one is missing: {uuid(0)}"], ["Could not look", "it is dark"],
        ["Not applicable", "there is none"],
    ]
    assert remedy.text() == f"one is missing: {uuid(0)}\nBuy another one."
    assert closing.text() == ("1 passed, 1 problem, 1 could not be looked at, 1 not applicable. "
                              "This says nothing about what is not listed.")
    copy.click()
    assert QGuiApplication.clipboard().text() == "Buy another one."
    share.click()
    copied = QGuiApplication.clipboard().text()
    assert "one is missing: GPU-00000000…" in copied
    assert uuid(0) not in copied
    assert message.text == "Copied the results without names, paths and serial numbers."
    menu.action("checkMachine").trigger()
    assert driver.window.findChildren(CheckDialog) == [dialog]
    dialog.close()


def test_dialog_closed_in_the_middle_ends_the_checks_and_the_next_one_begins_anew(assemble, monkeypatch) -> None:
    ended, looked = [], []

    def slow(scope):
        scope.stack.callback(lambda: ended.append(True))
        looked.append(True)
        return "slow"

    monkeypatch.setattr(table, "CHECKS", rows((slow, *(20 * (well,)))))
    driver = assemble("check")
    feature = driver.window.controllers.check
    feature.show_dialog()
    feature.begin(Level.QUICK)
    driver.until(lambda: looked)
    driver.window.findChild(CheckDialog).close()
    driver.until(lambda: ended and not feature._jobs.busy)
    feature.show_dialog()
    feature.begin(Level.QUICK)
    driver.until(lambda: len(ended) == 2 and not feature._jobs.busy)
    assert [result.state for _, result in feature._dialog.checks.rows] == 9 * [State.PASS]


def test_check_is_offered_once_where_there_is_a_driver(assemble, nvml) -> None:
    nvml.write(gpus=1)
    offered = []
    for _ in range(2):
        driver = assemble("check", "devices")
        driver.until(lambda driver=driver: not driver.window.controllers.check._may_offer)
        offered.append("Check this machine" in driver.window.panels.message.text)
    assert offered == [True, False]


def test_check_asked_for_while_that_of_a_closed_dialog_is_under_way_follows_it(assemble, monkeypatch) -> None:
    ended, may_end = [], Event()

    def slow(scope):
        scope.stack.callback(lambda: ended.append(True))
        may_end.wait(PATIENCE_S)
        return "slow"

    monkeypatch.setattr(table, "CHECKS", rows((slow, well)))
    driver = assemble("check")
    feature = driver.window.controllers.check
    feature.show_dialog()
    feature._dialog.findChild(QPushButton, "beginCheckButton").click()
    feature._dialog.close()
    feature.show_dialog()
    feature._dialog.findChild(QPushButton, "beginCheckButton").click()
    may_end.set()
    driver.until(lambda: len(ended) == 2 and not feature._jobs.busy)
    assert [result.value for _, result in feature._dialog.checks.rows] == ["slow", "all of it"]


def test_checks_that_cannot_be_done_end_what_they_started(assemble, monkeypatch) -> None:
    ended = []

    def unable(checks, scope):
        scope.stack.callback(lambda: ended.append(True))
        raise RunError("no folder of runs")

    monkeypatch.setattr(dialog_module, "run", unable)
    driver = assemble("check")
    feature = driver.window.controllers.check
    feature.show_dialog()
    feature.begin(Level.QUICK)
    driver.until(lambda: ended and not feature._jobs.busy)
    assert feature._dialog.findChild(QLabel, "checkRemedy").text() == "no folder of runs"


@pytest.mark.parametrize(
    ("remedy", "texts"),
    [
        ("Let runs do without it: trainyard check --p2p off.", ["Do without direct access", "Use direct access again"]),
        ("End them (trainyard sweep).", ["Look for processes that are left"]),
        ("Buy another one.", []),
    ],
)
def test_command_of_ours_that_helps_is_a_button(assemble, monkeypatch, remedy, texts) -> None:
    def wrong(scope):
        raise Problem("wrong", remedy)

    monkeypatch.setattr(table, "CHECKS", rows((wrong,)))
    driver = assemble("check", "devices")
    found = []
    driver.window.panels.menu.provide(leftovers=lambda: found.append(True))
    driver.window.panels.menu.action("checkMachine").trigger()
    dialog = driver.window.findChild(CheckDialog)
    begin, cure = (dialog.findChild(QPushButton, name) for name in ("beginCheckButton", "cureButton"))
    begin.click()
    driver.until(begin.isEnabled)
    assert cure.isVisible() == bool(texts)
    states = []
    for text in texts:
        assert cure.text() == text
        cure.click()
        states.append((p2p.is_off(), bool(found)))
    assert states == {0: [], 1: [(False, True)], 2: [(True, False), (False, False)]}[len(texts)]
    if len(texts) == 2:
        assert driver.window.panels.message.text == p2p.switch(on=True)
    dialog.close()
