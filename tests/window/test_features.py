"""The window is a list of features: it works without each of them, and names those that fail."""

from functools import partial

import pytest
from PySide6.QtCore import Qt

from core.runs.run import Run
from gui.app import create_window
from gui.features.runlist.history import QueueController
from gui.window import features
from gui.window.features import FEATURES
from tests.support.waiting import PATIENCE_S
from tests.support.written_runs import values, write_run


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in FEATURES if row.name != "host"], ids=lambda row: row.name)
def test_window_works_without_each_feature(qtbot, runs_root, monkeypatch, row):
    """It starts, polls, starts and shows a run, compares, changes its language and closes, where it still can."""
    one, other, started = (
        write_run(runs_root, f"20260101-00000{number}-run", [values(1, 1, 2, loss=[2.0, 1.0])]) for number in range(3)
    )
    monkeypatch.setattr(Run, "start", lambda spec, root: Run.attach(started))
    monkeypatch.setattr(features, "FEATURES", tuple(each for each in FEATURES if each is not row))
    wait = partial(qtbot.waitUntil, timeout=round(1000 * PATIENCE_S))
    window = create_window(runs_root)
    window.show()
    services, panels, has = window.services, window.panels, vars(window.controllers)
    assert row.name not in has
    for entry, feature in (("documents", "help"), ("preferences", "preferences"), ("compare", "comparison")):
        assert panels.menu.action(entry).isVisible() is (feature in has), "only what a feature provides is in the menu"
    wait(lambda: window.opened and len(services.run_list.found) == 3)
    if "run" in has:
        wait(lambda: panels.runs.count() == 3)
        panels.runs.choose(str(one))
        assert services.session.run.dir == one
    if {"start", "devices"} <= has.keys():
        panels.devices.chosen.tick_only(["cpu:0"])
        wait(panels.header.buttons.start.isEnabled)
        panels.header.buttons.start.click()
        wait(lambda: services.session.run is not None and services.session.run.dir == started)
    shown = services.session.run.dir if services.session.run is not None else None
    if {"comparison", "run"} <= has.keys():
        panels.runs.tick([str(one), str(other)])
        panels.actions.do("compare", panels.runs.ticked)
        assert set(services.compared.value) == {str(one), str(other)}
    services.language.set("zh_CN")
    wait(lambda: window.successor is not None)
    second = window.successor
    wait(lambda: second.isVisible() and second.opened)
    second.poll()
    assert (second.services.session.run.dir if second.services.session.run is not None else None) == (
        shown if "run" in has else None
    )
    assert len(second.services.compared.value) == (2 if {"comparison", "run"} <= has.keys() else 0)
    qtbot.keyClick(second, Qt.Key.Key_Escape)
    assert second.services.compared.value == ()
    assert second.close()
    second.deleteLater()


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["__init__", "opened", "poll", "carry"])
def test_feature_that_fails_is_named_once_and_the_others_go_on(drive, monkeypatch, feature_errors, hook):
    def broken(*_: object) -> None:
        raise KeyError("an unexpected error")

    monkeypatch.setattr(QueueController, hook, broken)
    panel = drive()
    if hook == "carry":
        former = panel.window
        former.services.language.set("en")
        panel.until(lambda: panel.window is not former, "the other window")
    panel.until(lambda: panel.message("brokenStrip"), "the message")
    sentence = "Parts of this window do not work: Queue. The others do. To try again, open the window again."
    assert panel.message("brokenStrip").startswith(f"{sentence} Something went wrong in the window: KeyError(")
    panel.window.panels.broken.dismiss()
    panel.tick("cpu:0")
    panel.until_ready()
    for _ in range(3):
        panel.window.poll()
    assert not panel.message("brokenStrip")
    assert feature_errors == ["Queue"]
    assert "an unexpected error" in panel.window.services.last_error, "the report has it"
    feature_errors.clear()
