"""The training card: what to train, and whether it can start. All its settings, in a sheet over the plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QFrame, QLineEdit, QPushButton, QScrollArea, QWidget

from core.catalog import recipes
from core.config.choices import RecipeChoices
from core.devices.device import Device
from core.language import tr, tr_noop
from core.schema.settings import GPUS, RELEASE, ReleaseWatch
from core.schema.spec import SCRIPT, RunSpec
from gui.base.theme import mark
from gui.features.setup.recipe_setup import RecipeSetup, plain
from gui.features.setup.reuse import PresetsButton
from gui.features.setup.script_form import ScriptForm
from gui.machine.script import TypedScript
from gui.machine.start_check import StartCheck
from gui.widgets.buttons import compact_button
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.fields import FormScroll, row_of
from gui.widgets.forms import FieldGroup, SettingsForm, StopForm
from gui.widgets.layouts import hbox, scroll_down, vbox
from gui.widgets.messages import announce
from gui.widgets.plain_text import PlainLabel, named


class StartStatus(QWidget):
    """Shows a `StartCheck`."""

    def __init__(self) -> None:
        super().__init__()
        self.arithmetic = PlainLabel(name="batchLabel", role="muted", wraps=True, selectable=True)
        self.sentences = PlainLabel(name="problemsLabel", wraps=True, selectable=True)
        vbox(self, self.arithmetic, self.sentences, gap=4, margins=(0, 4, 0, 4))

    def show_check(self, check: StartCheck) -> None:
        """Show whether the run can start, or why not."""
        self.arithmetic.setText(check.arithmetic)
        self.arithmetic.setVisible(bool(check.arithmetic))
        obstacles = (*check.problems, *check.busy)
        warns = bool(obstacles) or check.is_warning
        text = "\n".join(obstacles) or (check.ready if warns else f"✓  {check.ready}")
        if text != self.sentences.text():
            self.sentences.setText(text)
            self.sentences.setAccessibleName(tr("Start: {text}", text=text))
            announce(self.sentences, text)
            mark(self.sentences, tone="warn" if warns else "good")


class WorkloadSwitch(QWidget):
    """Two buttons, one of them checked."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        built_in = tr("Train a built-in workload or a recipe file with model()")
        self.recipe = _segment("recipeModeButton", tr("A recipe"), built_in)
        self.script = _segment("scriptModeButton", tr("Your own script"), tr("Start a training program unchanged"))
        self.presets = PresetsButton()
        self._group = QButtonGroup(self)
        for button in (self.recipe, self.script):
            self._group.addButton(button)
        self.recipe.setChecked(True)
        self.script.toggled.connect(lambda _: self.changed.emit())  # the recipe button is always the opposite
        hbox(self, self.recipe, self.script, 0, self.presets, gap=4)

    @property
    def is_script(self) -> bool:
        """True if a script is chosen."""
        return self.script.isChecked()

    def show_script(self, *, is_script: bool) -> None:
        """Check one of the buttons."""
        (self.script if is_script else self.recipe).setChecked(True)


def _segment(name: str, text: str, tip: str) -> QPushButton:
    button = named(QPushButton(text), name, tip=tip, role="segment")
    button.setCheckable(True)
    return button


class SetupPanel(QWidget):
    """The user's choices. It never changes a choice by itself, and hides fields that would have no effect."""

    changed = Signal(object)
    """The choices (`choices`), after each change."""
    search_folder_changed = Signal(object)
    """The folder of the chosen script, or None: a Python for the script shall be looked for near it."""

    def __init__(self, window: QWidget | None = None) -> None:
        """`window`: over a part of which the settings are opened; without one, they stay in this panel."""
        super().__init__()
        self._switch = WorkloadSwitch()
        self.recipe = RecipeSetup()
        self.script = ScriptForm()
        self.stop = StopForm()
        self.release = SettingsForm(ReleaseWatch, RELEASE)
        self.naming = SettingsForm(RunSpec, GPUS)
        self._everywhere = (self.naming, self.stop, self.release)
        self._groups = (*self.recipe.groups, self.script.more, *self._everywhere)
        self.sheet = SettingsSheet(self._groups, window or self)
        tip = tr("Open all settings over the plots, with a search")
        self.all_settings = compact_button("allSettingsButton", tr("All settings…"), tip, role="link")
        self._changes = ElidedLabel(name="changedSettings", role="small")
        self.presets = self._switch.presets
        self.status = StartStatus()
        self._has_gpus = False
        self._devices: tuple[str, ...] = ()
        self._lay_out()
        self.show_machine(())
        self._show_workload()
        self._connect()

    @property
    def is_script(self) -> bool:
        """True if a script is chosen, False for a recipe."""
        return self._switch.is_script

    def choices(self) -> RecipeChoices | TypedScript:
        """Return all choices with the ticked devices."""
        stop, release = self.stop.chosen(), self.release.chosen()
        cuda_ids = str(self.naming.values()["cuda_ids"]) if self._has_gpus else "uuid"
        if self.is_script:
            return self.script.typed(self._devices, stop, release, cuda_ids)
        return self.recipe.choices(self._devices, stop, release, cuda_ids)

    def open_recipe(self, path: Path | str) -> None:
        """Choose a recipe file."""
        self._switch.show_script(is_script=False)
        self.recipe.open_file(Path(path))

    def choose_built_in(self, name: str) -> None:
        """Choose a built-in recipe by its name."""
        self._switch.show_script(is_script=False)
        self.recipe.choose_built_in(name)

    def open_script(self, path: Path | str) -> None:
        """Choose a script."""
        self._switch.show_script(is_script=True)
        self.script.choose(str(path))

    def open_file(self, path: Path) -> None:
        """Open a file or a folder of a program as a recipe if it has the functions of one, else as a script."""
        try:
            recipes.read(path)
        except ValueError:
            self.open_script(path)
        else:
            self.open_recipe(path)

    def show_devices(self, devices: Sequence[Device]) -> None:
        """Adapt to the ticked devices."""
        self._devices = tuple(device.id for device in devices)
        self.recipe.show_devices(devices)
        self._emit_changed()

    def show_machine(self, devices: Sequence[Device]) -> None:
        """Adapt to the devices of this machine: without a GPU, hide the field for GPU names."""
        had_gpus, self._has_gpus = self._has_gpus, any(device.kind != "cpu" for device in devices)
        self._show_groups()
        if self._has_gpus is not had_gpus:
            self._emit_changed()  # the choices have another `cuda_ids`

    def show_check(self, check: StartCheck) -> None:
        """Show whether the run can start, or why not."""
        self.status.show_check(check)
        if not check.pending:
            self.recipe.show_open_ports(offered=check.offers_open_ports)
        if self.is_script and check.proposed:
            self.script.show_suggestion(check.proposed, check.why)
        if self.is_script and check.usual_python:
            self.script.show_default_python(check.usual_python)

    def remember(self) -> dict[str, Any]:
        """Return all choices, for the settings file."""
        return {
            **self.recipe.remember(),
            "is_script": self.is_script,
            "script": self.script.remember(),
            "overrides": {**self.release.overrides(), **self.naming.overrides(), **self.stop.overrides()},
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Restore what `remember` returned; missing and invalid values are ignored."""
        self.recipe.restore(kept)
        self.script.restore(plain(kept.get("script")))
        overrides = plain(kept.get("overrides"))
        self.release.restore(overrides)
        self.stop.restore(overrides)
        self.naming.restore(overrides)
        self._switch.show_script(is_script=kept.get("is_script") is True)

    def fill(self, spec: RunSpec) -> None:
        """Fill in the settings of a run or a preset, except its devices."""
        if spec.script is not None:
            self.script.fill(spec)
        else:
            self.recipe.fill(spec)
        self.stop.fill_from(spec)
        self.release.fill(asdict(spec.release))
        self.naming.fill({"cuda_ids": spec.cuda_ids})
        self._switch.show_script(is_script=spec.script is not None)
        self._emit_changed()

    def _emit_changed(self) -> None:
        self._show_changes()
        self.changed.emit(self.choices())

    def _show_workload(self) -> None:
        """Show the fields for a recipe or for a script."""
        self.recipe.setVisible(not self.is_script)
        self.script.setVisible(self.is_script)
        self._show_groups()

    def _show_groups(self) -> None:
        """Offer the groups of settings that a recipe or a script has on this machine."""
        for group in self.recipe.groups:
            group.show_group(wanted=not self.is_script)
        self.script.more.show_group(wanted=self.is_script)
        self.naming.show_group(wanted=self._has_gpus)
        self.stop.show_strategy(SCRIPT if self.is_script else "")
        self.stop.show_group(wanted=True)
        self.release.show_group(wanted=True)
        self._show_changes()

    def _show_changes(self) -> None:
        """List the settings that differ from their defaults."""
        own = (self.script.more,) if self.is_script else self.recipe.groups
        naming = (self.naming,) if self._has_gpus else ()
        changes = [change for group in (*own, *naming, self.stop, self.release) for change in group.changes()]
        text = tr("Other settings have their defaults")
        if changes:
            text = tr("Changed: {changes}", changes=tr(", ").join(changes))
        if text != self._changes.text():
            self._changes.setText(text)
            self._changes.setAccessibleName(text)
            mark(self._changes, tone="accent" if changes else "muted")

    def _on_switched(self) -> None:
        self._show_workload()
        self._on_search_folder_changed()
        self._emit_changed()

    def _on_search_folder_changed(self) -> None:
        if self.is_script:
            self.search_folder_changed.emit(self.script.search_folder)

    def _on_script_named(self) -> None:
        """Switch to the script form when a script is named."""
        if self.script.script:
            self._switch.show_script(is_script=True)

    def _connect(self) -> None:
        self.script.named.connect(self._on_script_named)
        self.script.search_folder_changed.connect(self._on_search_folder_changed)
        for part in (self.recipe, self.script, self.stop, self.release, self.naming, self._switch):
            part.changed.connect(self._emit_changed)
        self._switch.changed.connect(self._on_switched)
        self.all_settings.clicked.connect(self.sheet.toggle)
        self.sheet.closed.connect(self.all_settings.setFocus)

    def _lay_out(self) -> None:
        others = row_of(self._changes, self.all_settings, shares=(1, 0))
        others.setContentsMargins(8, 0, 8, 0)
        vbox(content := QWidget(), self._switch, self.recipe, self.script, gap=7)
        content.setContentsMargins(8, 2, 8, 2)
        vbox(self, FormScroll(content), others, self.status, 0, gap=4)
        self.status.setContentsMargins(8, 0, 8, 0)


COLUMN = 44
"""Least width of a column, in letters: enough for fields beside their labels, which need half the height."""
GAP_PX = 24
TITLE_FROM = 70
"""Width of the sheet from which on there is room for its title, in letters."""
NONE = tr_noop("No setting has these words. The search looks at names, groups and explanations.")


class SettingsSheet(QFrame):
    """Holds the groups; they are the only editors of these settings. Escape closes the sheet."""

    opened = Signal()
    closed = Signal()

    def __init__(self, groups: Sequence[FieldGroup], parent: QWidget) -> None:
        """`parent`: the window. With each new parent, Qt would style everything in the sheet again."""
        super().__init__(parent)
        named(self, "settingsSheet", tr("All settings"), card=True)
        self._groups = tuple(groups)
        self._ground: QWidget | None = None
        self.search = named(QLineEdit(), "settingsSearch", tr("Search the settings"))
        self.search.setPlaceholderText(tr("Search the settings"))
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(lambda _: self.show_matching())
        every = tr("Give every setting of this sheet its default")
        self.defaults = compact_button("resetSettings", tr("Reset to defaults"), every)
        self.defaults.clicked.connect(self._reset)
        done = compact_button("closeSettings", tr("Done"), tr("Close the settings (Escape)"))
        done.clicked.connect(self.close_sheet)
        self._none = PlainLabel(tr(NONE), role="empty", wraps=True)
        self._lay_out(done)
        self.hide()

    def cover(self, ground: QWidget) -> None:
        """Cover this part of the parent whenever the sheet is open."""
        self._ground = ground
        ground.installEventFilter(self)

    def toggle(self) -> None:
        """Open the sheet, or close it."""
        if self.isVisible():
            self.close_sheet()
        else:
            self._place()
            self.show()
            self.raise_()
            self.opened.emit()
            self.search.setFocus()
            self.search.selectAll()

    def close_sheet(self) -> None:
        """Close the sheet; `closed` reports it if the focus was inside, and has to go elsewhere."""
        focus = self.window().focusWidget()
        had_focus = focus is not None and self.isAncestorOf(focus)
        if self.isVisible():
            self.hide()
            if had_focus:
                self.closed.emit()

    def show_matching(self) -> None:
        """Show the settings that have the searched words."""
        found = [group.search(self.search.text()) for group in self._groups]
        self._none.setVisible(not any(found))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Close at Escape; no other key reaches what is below."""
        if event.key() == Qt.Key.Key_Escape:
            self.close_sheet()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Follow the size of the part that is covered."""
        if self.isVisible() and event.type() in {QEvent.Type.Resize, QEvent.Type.Move}:
            self._place()
        return super().eventFilter(watched, event)

    def _place(self) -> None:
        if self._ground is not None:
            corner = self._ground.mapTo(self._ground.window(), QPoint(0, 0))
            self._title.setVisible(self._ground.width() > TITLE_FROM * self.fontMetrics().averageCharWidth())
            self.setGeometry(corner.x(), corner.y(), self._ground.width(), self._ground.height())
            self.raise_()  # another layout of the window has put the docks and the plots over it

    def _reset(self) -> None:
        for group in self._groups:
            if group.wanted:
                group.reset()

    def _lay_out(self, done: QPushButton) -> None:
        self._title = PlainLabel(tr("All settings"), role="title")
        layout = vbox(self, gap=10, margins=(14, 10, 14, 10))
        hbox(layout, self._title, (self.search, 1), self.defaults, done, gap=10)
        scroll = QScrollArea()
        scroll_down(scroll)
        columns = Columns()
        scroll.setWidget(columns)
        layout.addWidget(self._none)
        layout.addWidget(scroll, 1)
        columns.place(self._groups)  # last: with each new parent Qt styles everything below again, too
        self._none.hide()


class Columns(QWidget):
    """Places parts in as many columns as there is room for, each part into the shortest column so far."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: tuple[QWidget, ...] = ()

    def place(self, parts: Sequence[QWidget]) -> None:
        """Take these parts."""
        self._parts = tuple(parts)
        for part in parts:
            part.setParent(self)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Place the parts."""
        super().resizeEvent(event)
        self._arrange()

    def event(self, event: QEvent) -> bool:
        """Place the parts again when one has changed its size, or was shown or hidden."""
        if event.type() in {QEvent.Type.LayoutRequest, QEvent.Type.Show}:
            self._arrange()
        return super().event(event)

    def _arrange(self) -> None:
        shown = [part for part in self._parts if not part.isHidden()]
        least = COLUMN * self.fontMetrics().averageCharWidth()
        count = max(1, min((self.width() + GAP_PX) // (least + GAP_PX), len(shown)))
        width = min((self.width() - GAP_PX * (count - 1)) // count, 2 * least)
        ends = [0] * count
        for part in shown:
            column = ends.index(min(ends))
            height = part.sizeHint().height()
            part.setGeometry(column * (width + GAP_PX), ends[column], width, height)
            ends[column] += height + GAP_PX // 2
        self.setMinimumHeight(max(ends))
