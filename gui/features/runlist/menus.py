"""The menus of one run and of several, made from the rows of `gui.runs.actions`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

from PySide6.QtCore import QPoint
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from core.language import tr, tr_plural
from gui.base.icons import ButtonIcon
from gui.runs.actions import ACTIONS, NO_RUN, RunActions
from gui.widgets.context_menu import add_action
from gui.widgets.plain_text import named, verbatim

DOTS_PX = 15


class RunMenu(QMenu):
    """The menu of one run, brought up to date when it opens."""

    def __init__(self, parent: QWidget, actions: RunActions, *, with_keys: bool = False) -> None:
        super().__init__(parent)
        self.run_dir = ""
        """The run that the menu is about; the empty string for none."""
        self._actions = actions
        self._by_name: dict[str, QAction] = {}
        self._tips = {row.name: tr(row.tip) for row in ACTIONS if row.text}
        self.setToolTipsVisible(True)
        for _, rows in groupby((row for row in ACTIONS if row.text), lambda row: row.section):
            self.addSeparator()
            for row in rows:
                action = self._by_name[row.name] = add_action(self, tr(row.text))
                action.triggered.connect(lambda _, name=row.name: actions.do(name, [self.run_dir]))
                if with_keys and row.key:
                    action.setShortcut(QKeySequence(row.key))
        self.aboutToShow.connect(self.refresh)
        self.refresh()

    def action(self, name: str) -> QAction:
        """Return an action by its name (`ACTIONS`)."""
        return self._by_name[name]

    def show_run(self, run_dir: Path | str) -> None:
        """Set the run that the menu is about; the empty string for none."""
        self.run_dir = str(run_dir)
        self.refresh()

    def refresh(self) -> None:
        """Enable the actions that can be done now, and give the others the reason as tooltip."""
        for name, state in self._actions.states(self.run_dir).items():
            action = self._by_name[name]
            action.setText(state.text)
            action.setVisible(state.shown)
            action.setEnabled(not state.why_not)
            action.setToolTip(verbatim(state.why_not or self._tips[name]))


class SeveralMenu(QMenu):
    """The menu of all ticked runs. It is filled when it is opened."""

    def __init__(self, parent: QWidget, actions: RunActions) -> None:
        super().__init__(parent)
        self._actions = actions
        self.queued: Callable[[], Collection[str]] = tuple
        """Returns the directories of the queued runs."""
        self.setObjectName("severalMenu")
        self.setToolTipsVisible(True)

    def popup_for(self, run_dirs: Sequence[str], place: QPoint) -> None:
        """Open the menu of these runs."""
        self.clear()
        self.addAction(tr_plural("{count} run", "{count} runs", len(run_dirs))).setEnabled(False)
        are_queued = not set(run_dirs).isdisjoint(self.queued())
        shown = (row for row in ACTIONS if row.of_several and (are_queued or not row.of_queued))
        for _, rows in groupby(shown, lambda row: row.section):
            for row in rows:
                assert row.of_several is not None
                text, tip = map(tr, row.of_several)
                action = add_action(self, text, partial(self._actions.do, row.name, run_dirs), tip)
                action.setObjectName(f"{row.name}SeveralAction")
            self.addSeparator()
        self.popup(place)


class RunMenuButton(QToolButton):
    """Opens the menu of the shown run."""

    def __init__(self, actions: RunActions) -> None:
        super().__init__()
        named(self, "runMenuButton", tr("Actions for this run"))
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setStyleSheet("QToolButton { padding: 5px 6px; } QToolButton::menu-indicator { image: none; }")
        self.run_menu = named(RunMenu(self, actions, with_keys=True), "runMenu")
        self.setMenu(self.run_menu)
        ButtonIcon(self, "dots", side=DOTS_PX)
        self.show_run(None)

    def show_run(self, run_dir: Path | None) -> None:
        """Set the run that the menu is about; None for no run."""
        self.run_menu.show_run(run_dir or "")
        self.setEnabled(run_dir is not None)
        self.setToolTip(tr("Rename, run again, duplicate, copy as command, export, delete") if run_dir else tr(NO_RUN))
