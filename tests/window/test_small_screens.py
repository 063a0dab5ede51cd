"""Screens of 1366 x 768 at 150 % and 1920 x 1080 at 200 %: nothing is cut, and nothing is outside of the screen."""

from types import SimpleNamespace

import pytest
from PySide6.QtCore import QPoint, QRect, QSize
from PySide6.QtWidgets import QDialog, QPushButton, QWidget

from gui.features.log.page import TeachDialog
from gui.features.setup.panel import StartStatus
from gui.widgets.dialogs import FRAME, FileDialog, NameDialog, ScreenDialog, ask
from gui.widgets.fields import FormScroll
from gui.window.layout import MIN_SIZE
from tests.support.recorded import finding, recorded
from tests.window.clipping import clipped

pytestmark = pytest.mark.styled

SCREENS = (QSize(910, 512), QSize(960, 540))
"""In logical pixels."""
LARGE = QSize(2560, 1440)
LONG = "All of these words have to be read before the answer. " * 60
DIALOGS = {
    "preferences": lambda window: window.controllers.preferences.show_dialog(),
    "notifications": lambda window: window.controllers.preferences._show_notifications(window.findChild(QDialog)),
    "hosts": lambda window: window.controllers.host_list.show_dialog(),
    "about": lambda window: window.controllers.help.show_about(),
    "keys": lambda window: window.controllers.help.show_keys(),
    "documents": lambda window: window.controllers.help.show_documents(),
    "check": lambda window: window.controllers.check.show_dialog(),
    "scaling": lambda window: window.controllers.scaling.ask(),
    "question": lambda window: ask(window, print, question="Is it read?", words=LONG, yes="Yes"),
    "name": lambda window: NameDialog(window, print, question="?", name="", yes="Yes", judge=lambda _: ("", "")).open(),
    "teach": lambda window: TeachDialog(window, line=LONG, heading="A loss", has_name=True).show(),
    "file": lambda window: FileDialog(window, "Open", print).open(),
}


def outside(window: QWidget) -> list[str]:
    """Return the visible parts of the window that are not whole inside it."""
    parts = [*window.dock_layout.docks, window.centralWidget(), window.menuWidget()]
    seen = [each for each in parts if not each.visibleRegion().isEmpty()]  # not behind a tab
    return [each.objectName() for each in seen if not window.rect().contains(each.geometry())]


@pytest.mark.parametrize("screen", SCREENS, ids=lambda size: f"{size.width()}x{size.height()}")
def test_window_is_whole_in_each_state(drive, nvml, runs_root, monkeypatch, screen: QSize) -> None:
    nvml.write(gpus=8)
    what = finding(verdict="held by others", sentence="This run released its memory. Another process took it. " * 3)
    run_dir = recorded(runs_root, findings=[what], last="failed")
    panel = drive()
    window = panel.window
    panel.until(lambda: len(panel.devices) > 8, "the GPUs")
    monkeypatch.setattr(type(window), "screen", lambda _: SimpleNamespace(availableSize=lambda: screen), raising=False)
    panel.resize(1480, 900)
    window._state._fit_screen()
    room = screen - FRAME
    panel.until(lambda: window.size() == room, "the size that the screen has room for")
    assert window.size().expandedTo(MIN_SIZE) == room
    devices = window.panels.devices.chosen
    states = {
        "no run": lambda: devices.tick([]),
        "three devices": lambda: devices.tick([row.id for row in devices.rows[:3]]),
        "two kinds": lambda: devices.tick([devices.rows[0].id, "cpu:0"]),
        "a run": lambda: window.controllers.run.attach_to(str(run_dir)),
        "its memory": window.panels.details.raise_memory,
    }
    for name, act in states.items():
        act()
        panel.until(lambda: window.controllers.start.current_check is not None, "the check")
        panel.until(lambda: not outside(window), f"{name}: {outside(window)}")
        panel.until(lambda: not clipped(window), f"{name}: {clipped(window)}")
        status = window.findChild(StartStatus)
        panel.until(lambda status=status: status.geometry().bottom() < window.panels.setup.height(), name)
        panel.until(lambda status=status: _sees(window.panels.setup, status), name)


def _sees(around, inner) -> bool:
    return around.visibleRegion().boundingRect().bottom() >= inner.geometry().bottom()


def test_dialogs_are_no_larger_than_the_screen_and_scroll_what_is_higher(drive, qtbot, monkeypatch) -> None:
    window = drive().window
    for screen in (*SCREENS, LARGE):
        shown = SimpleNamespace(availableSize=lambda screen=screen: screen, availableGeometry=QRect)
        monkeypatch.setattr(ScreenDialog, "screen", lambda _, shown=shown: shown, raising=False)
        scrolled = set()
        for name, show in DIALOGS.items():
            before = window.findChildren(QDialog)
            show(window)
            (dialog,) = (each for each in window.findChildren(QDialog) if each not in before)
            qtbot.waitUntil(dialog.isVisible)
            qtbot.waitUntil(lambda dialog=dialog, screen=screen: not _cut(dialog, screen))
            if scroll := dialog.findChild(FormScroll):
                scrolled.add(name)
                qtbot.waitUntil(lambda scroll=scroll: scroll.widget().minimumSizeHint().width() <= scroll.width())
                qtbot.waitUntil(lambda scroll=scroll: scroll.verticalScrollBar().maximum() > 0)
        for each in window.findChildren(QDialog):
            each.close()
        qtbot.waitUntil(lambda: not any(each.isVisible() for each in window.findChildren(QDialog)))
        qtbot.waitUntil(lambda: not window.findChildren(ScreenDialog), timeout=10_000)
        wanted = set() if screen == LARGE else {"preferences", "notifications", "hosts", "question"}
        assert scrolled >= wanted
        assert wanted or not scrolled


def _cut(dialog: QDialog, screen: QSize) -> list[str]:
    """Return what is larger than the screen, or outside of the dialog."""
    room = screen - FRAME
    found = [] if dialog.size() == dialog.size().boundedTo(room) else [f"{dialog.size()}"]
    if isinstance(dialog, ScreenDialog):
        places = {
            each: QRect(each.mapTo(dialog, QPoint()), each.size())
            for each in dialog.findChildren(QPushButton)
            if each.isVisible() and not any(scroll.isAncestorOf(each) for scroll in dialog.findChildren(FormScroll))
        }
        found += [each.objectName() for each, place in places.items() if not dialog.rect().contains(place)]
        found += clipped(dialog) if not dialog.findChild(FormScroll) else []
    return found
