"""The tab Settings: what the shown run was trained with, in columns, with the command that repeats it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QBoxLayout, QFrame, QGridLayout, QMenu, QScrollArea, QToolButton, QWidget

from core.language import tr
from gui.style.theme import mark
from gui.widgets.layouts import hbox, vbox
from gui.widgets.plain_text import PlainLabel
from gui.widgets.table import empty_label

if TYPE_CHECKING:
    from PySide6.QtGui import QResizeEvent

    from gui.viewmodels.run.settings_rows import RunSettings, SettingGroup, SettingRow

LETTERS_PER_COLUMN = 36
MAX_COLUMNS = 4


class SettingsView(QScrollArea):
    """Shows the settings of one run. `controls` is laid out in the heading of the card."""

    copy_asked = Signal(str)
    """This text is to be copied."""
    command_asked = Signal()
    """The command is to be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("settingsView")
        self.setAccessibleName(tr("Settings of the run"))
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._shown: RunSettings | None = None
        self._columns = 0
        self._empty = ""
        self.controls = QToolButton()
        self.controls.setObjectName("settingsCopyButton")
        self.controls.setText(f"{tr('Copy')} ")
        self.controls.setAccessibleName(tr("Copy the settings"))
        self.controls.setToolTip(tr("Copy all settings as text, or the command that starts the same run"))
        self.controls.setProperty("compact", True)
        self.controls.setProperty("unfolds", True)
        self.controls.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self.controls)
        menu.setObjectName("settingsCopyMenu")
        menu.addAction(tr("All settings as text"), self._copy)
        menu.addAction(tr("Command that starts the same run"), self.command_asked.emit)
        self.controls.setMenu(menu)
        self._fill()

    def show_settings(self, settings: RunSettings | None, empty: str) -> None:
        """Show these settings; None shows the sentence `empty` instead."""
        if (settings, empty) != (self._shown, self._empty):
            self._shown, self._empty = settings, empty
            self._fill()
        self.controls.setEnabled(settings is not None)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Use as many columns as there is room for."""
        super().resizeEvent(event)
        if self._column_count() != self._columns:
            self._fill()

    def _copy(self) -> None:
        if self._shown is not None:
            self.copy_asked.emit(self._shown.text)

    def _column_count(self) -> int:
        column_px = LETTERS_PER_COLUMN * self.fontMetrics().averageCharWidth()
        return max(1, min(self.viewport().width() // column_px, MAX_COLUMNS))

    def _fill(self) -> None:
        self._columns = self._column_count()
        content = QWidget()
        layout = vbox(content, gap=10, margins=(9, 6, 9, 6))
        if self._shown is None:
            layout.addWidget(empty_label(self._empty))
        else:
            narrow = [group for group in self._shown.groups if not group.is_wide]
            wide = [group for group in self._shown.groups if group.is_wide]
            _add_columns(layout, narrow, self._columns)
            _add_columns(layout, wide, 1)
            if self._shown.command:
                layout.addWidget(_command(self._shown.command))
        layout.addStretch(1)
        self.setWidget(content)


def _add_columns(layout: QBoxLayout, groups: list[SettingGroup], count: int) -> None:
    """Add groups in columns of about the same height, in their order."""
    beside = hbox(layout, gap=24)
    heights = [len(group.rows) + 2 for group in groups]
    share = sum(heights) / max(count, 1)
    columns: list[list[SettingGroup]] = [[] for _ in range(count)]
    filled = 0.0
    for group, height in zip(groups, heights, strict=True):
        columns[min(int((filled + height / 2) / share), count - 1)].append(group)
        filled += height
    for place, column in enumerate(columns):
        vbox(beside, *map(_group, column), 0, gap=10)
        beside.setStretch(place, 1)


def _group(group: SettingGroup) -> QWidget:
    widget = QWidget()
    grid = QGridLayout(widget)
    grid.setContentsMargins(0, 0, 0, 0)
    grid.setHorizontalSpacing(14)
    grid.setVerticalSpacing(3)
    grid.setColumnStretch(1, 1)
    heading = PlainLabel(group.title, role="heading")
    grid.addWidget(heading, 0, 0, 1, 2)
    for number, row in enumerate(group.rows, 1):
        label = PlainLabel(row.label, role="muted")
        label.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        grid.addWidget(label, number, 0)
        grid.addWidget(_value(row), number, 1)
    return widget


def _value(row: SettingRow) -> PlainLabel:
    value = PlainLabel(
        tr("{value}  (default {usual})", value=row.value, usual=row.usual) if row.usual else row.value, wraps=True
    )
    value.setAccessibleName(f"{row.label}: {value.text()}")
    value.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
    value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    if row.usual:
        mark(value, tone="accent")
    return value


def _command(command: str) -> PlainLabel:
    label = PlainLabel(command, name="settingsCommand", wraps=True)
    label.setAccessibleName(tr("Command that starts the same run"))
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    monospace = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()
    label.setStyleSheet(f'font-family: "{monospace}";')
    return label
