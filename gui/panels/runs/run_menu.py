"""The menu of a run: open its folder, rename and mark it, reuse its settings, export it, delete it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import Signal, SignalInstance
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from core.history.marks import Marks
from core.language import tr
from gui.style.icons import glyph, icon_size
from gui.style.theme import Theme
from gui.viewmodels.runs.run_actions import ACTIONS, NO_RUN
from gui.widgets.plain_text import verbatim

KEYS = {"rename": "F2", "csv": "Ctrl+E"}
"""Keys of the menu of the shown run; the menu of another run has none."""
DOTS_PX = 15
QUEUE_ACTIONS = ("up", "down", "hold", "startNow", "unqueue")
"""Actions that only a queued run has."""


class RunMenu(QMenu):
    """The menu of one run; each signal carries its directory."""

    folder_asked = Signal(str)
    path_asked = Signal(str)
    rename_asked = Signal(str)
    star_asked = Signal(str)
    tags_asked = Signal(str)
    note_asked = Signal(str)
    archive_asked = Signal(str)
    again_asked = Signal(str)
    edit_asked = Signal(str)
    copy_asked = Signal(str)
    keep_asked = Signal(str)
    csv_asked = Signal(str)
    tensorboard_asked = Signal(str)
    report_asked = Signal(str)
    model_asked = Signal(str)
    remove_asked = Signal(str)
    up_asked = Signal(str)
    down_asked = Signal(str)
    hold_asked = Signal(str)
    start_asked = Signal(str)
    unqueue_asked = Signal(str)
    opened = Signal()
    """The menu is about to be shown: `allow` may be called."""

    def __init__(self, parent: QWidget, *, with_keys: bool = False) -> None:
        super().__init__(parent)
        self.run_dir = ""
        """The run that the menu is about; the empty string for none."""
        self.setToolTipsVisible(True)
        self._by_name: dict[str, QAction] = {}
        self._tips: dict[str, str] = {}
        self._add_queue()
        self._add_names_and_marks()
        self.addSeparator()
        self._add_settings()
        self.addSeparator()
        self._add_exports()
        self.addSeparator()  # set off: it cannot be undone
        self._add(
            "remove",
            tr("Delete…"),
            tr("Delete its folder, after a question; only if the run has ended"),
            self.remove_asked,
        )
        for name in KEYS if with_keys else ():
            self._by_name[name].setShortcut(QKeySequence(KEYS[name]))
        self.aboutToShow.connect(self.opened)

    def action(self, name: str) -> QAction:
        """Return an action by its name (`ACTIONS`)."""
        return self._by_name[name]

    def show_run(self, run_dir: Path | str) -> None:
        """Set the run that the menu is about; the empty string for none."""
        self.run_dir = str(run_dir)
        self.allow(dict.fromkeys(ACTIONS, "" if self.run_dir else tr(NO_RUN)))

    def show_marks(self, marks: Marks | None) -> None:
        """Word the actions for a run with these marks."""
        self._by_name["star"].setText(tr("Remove star") if marks is not None and marks.star else tr("Star"))
        archived = marks is not None and marks.archived
        self._by_name["archive"].setText(tr("List again") if archived else tr("Archive"))

    def show_queue(self, is_held: bool | None, *, can_move_up: bool = False, can_move_down: bool = False) -> None:
        """Show the actions for a queued run; `is_held` is None for a run that is not queued, which has none."""
        for name in QUEUE_ACTIONS:
            self._by_name[name].setVisible(is_held is not None)
        self._after_queue.setVisible(is_held is not None)
        self._by_name["up"].setEnabled(can_move_up)
        self._by_name["down"].setEnabled(can_move_down)
        self._by_name["hold"].setText(tr("Release") if is_held else tr("Hold"))

    def allow(self, obstacles: Mapping[str, str]) -> None:
        """Enable the actions that have no obstacle, and give the others theirs as tooltip."""
        for name, why_not in obstacles.items():
            self._by_name[name].setEnabled(not why_not)
            self._by_name[name].setToolTip(verbatim(why_not or self._tips[name]))

    def _add_queue(self) -> None:
        self._add("up", tr("Move up in the queue"), tr("Let it start before the run above it"), self.up_asked)
        self._add("down", tr("Move down in the queue"), tr("Let the run below it start first"), self.down_asked)
        self._add("hold", tr("Hold"), tr("Keep it from starting until it is released"), self.hold_asked)
        self._add("startNow", tr("Start now…"), tr("Start it beside the runs that use its devices"), self.start_asked)
        self._add("unqueue", tr("Remove from the queue…"), tr("End it without having started it"), self.unqueue_asked)
        self._after_queue = QAction(self)  # see `_add`
        self._after_queue.setSeparator(True)
        self.addAction(self._after_queue)
        self.show_queue(None)

    def _add_names_and_marks(self) -> None:
        self._add("folder", tr("Open folder"), tr("Show its folder in the file manager"), self.folder_asked)
        self._add("path", tr("Copy path"), tr("Copy the path of its folder"), self.path_asked)
        self._add("rename", tr("Rename…"), tr("Give it another name; its folder keeps its own"), self.rename_asked)
        self.addSeparator()
        self._add("star", tr("Star"), tr("Mark it, or take the mark away; star:yes finds it"), self.star_asked)
        self._add("tags", tr("Tags…"), tr("Give it words by which it is found"), self.tags_asked)
        self._add("note", tr("Add note…"), tr("Keep a note in its folder; show lists the notes"), self.note_asked)
        self._add(
            "archive", tr("Archive"), tr("Leave it out of the list, or list it again; nothing is deleted"),
            self.archive_asked,
        )  # fmt: skip

    def _add_settings(self) -> None:
        self._add("again", tr("Run again"), tr("Start a new run with the same settings and devices"), self.again_asked)
        self._add(
            "edit", tr("Duplicate and edit"), tr("Copy its settings into the training card and tick its devices"),
            self.edit_asked,
        )  # fmt: skip
        self._add("copy", tr("Copy as command"), tr("Copy the shell command that starts the same run"), self.copy_asked)
        self._add("keep", tr("Save as preset…"), tr("Save its settings under a name"), self.keep_asked)

    def _add_exports(self) -> None:
        self._add(
            "csv", tr("Export measurements…"), tr("Write every step of every metric to a CSV file"), self.csv_asked
        )
        self._add(
            "tensorboard", tr("Export for TensorBoard…"), tr("Write every step of every metric as an event file"),
            self.tensorboard_asked,
        )  # fmt: skip
        self._add(
            "report", tr("Export report…"), tr("Write curves, settings, environment and events to an HTML file"),
            self.report_asked,
        )  # fmt: skip
        self._add(
            "model", tr("Export model…"), tr("Write the model of its latest checkpoint to a folder"), self.model_asked
        )

    def _add(self, name: str, text: str, tip: str, signal: SignalInstance) -> None:
        action = QAction(text, self)  # made here: PySide loses sight of those that Qt makes, when other menus end
        self.addAction(action)
        action.setToolTip(verbatim(tip))
        action.triggered.connect(lambda _: signal.emit(self.run_dir))
        self._by_name[name], self._tips[name] = action, tip


class RunMenuButton(QToolButton):
    """Opens the menu of the shown run."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("runMenuButton")
        self.setAccessibleName(tr("Actions for this run"))
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setStyleSheet("QToolButton { padding: 5px 6px; } QToolButton::menu-indicator { image: none; }")
        self.run_menu = RunMenu(self, with_keys=True)
        self.run_menu.setObjectName("runMenu")
        self.setMenu(self.run_menu)
        self.set_theme(theme)
        self.show_run(None)

    def show_run(self, run_dir: Path | None) -> None:
        """Set the run that the menu is about; None for no run."""
        self.run_menu.show_run(run_dir or "")
        self.setEnabled(run_dir is not None)
        self.setToolTip(tr("Rename, run again, duplicate, copy as command, export, delete") if run_dir else tr(NO_RUN))

    def set_theme(self, theme: Theme) -> None:
        """Apply a theme."""
        self.setIconSize(icon_size(side=DOTS_PX))
        self.setIcon(glyph("dots", theme.muted, theme.disabled))
