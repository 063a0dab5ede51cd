"""The sheet with all settings over the plots, and the presets."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal, SignalInstance
from PySide6.QtGui import QAction, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QLineEdit, QMenu, QPushButton, QScrollArea, QToolButton, QWidget

from core.config import presets
from core.config.presets import Preset
from core.language import tr, tr_noop, tr_plural
from core.runs.foreign import owner_of_file
from gui.widgets.buttons import compact_button, give_menu_below
from gui.widgets.forms import FieldGroup
from gui.widgets.layouts import hbox, scroll_down, vbox
from gui.widgets.plain_text import PlainLabel, menu_text, named, verbatim

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


NO_PRESETS = tr_noop("No presets yet")


class PresetsButton(QToolButton):
    """Reads the list each time it opens: presets are files that other programs may add or remove."""

    fill_asked = Signal(str)
    """The file of the preset to load."""
    remove_asked = Signal(str)
    keep_asked = Signal()
    """The current settings shall be saved as a preset."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "setupsButton", tr("Presets"))
        self.setToolTip(tr("Load a preset, save the current settings as one, or remove one"))
        menu = give_menu_below(self, tr("Presets"), "setupsMenu")
        menu.setToolTipsVisible(True)
        menu.aboutToShow.connect(self.list_presets)
        self._removing = QMenu(tr("Remove"), menu)

    def list_presets(self) -> None:
        """Update the list."""
        menu = self.menu()
        menu.clear()
        found = presets.read_all(presets.default_root())
        for preset in found:
            _describe(self._offer(menu, preset.name, preset, self.fill_asked), preset)
        if not found:
            menu.addAction(tr(NO_PRESETS)).setEnabled(False)
        menu.addSeparator()
        menu.addAction(tr("Save current settings…"), self.keep_asked.emit)
        if found:
            self._removing.clear()
            menu.addMenu(self._removing)
            for preset in found:
                self._offer(self._removing, f"{preset.name}…", preset, self.remove_asked)

    @staticmethod
    def _offer(menu: QMenu, text: str, preset: Preset, signal: SignalInstance) -> QAction:
        action = menu.addAction(menu_text(text))
        action.triggered.connect(lambda: signal.emit(str(preset.path)))
        return action


def _describe(action: QAction, preset: Preset) -> None:
    owner = owner_of_file(preset.path)
    belongs = [tr("It belongs to {owner}.", owner=owner)] if owner else []
    action.setEnabled(preset.spec is not None)
    action.setToolTip(verbatim("\n".join([summary(preset), *belongs])))


def summary(preset: Preset) -> str:
    """Return what a preset trains, in one line; its problem if it cannot be used."""
    spec = preset.spec
    if spec is None:
        return preset.problem
    devices = tr_plural("{count} device", "{count} devices", len(spec.devices))
    if spec.script is not None:
        what = f"{spec.script.name} {' '.join(spec.script.arguments)}".strip()
    else:
        what = f"{spec.own_recipe.name}, {spec.framework} {spec.strategy}"
    return tr("{what}, on {devices}", what=what, devices=devices)
