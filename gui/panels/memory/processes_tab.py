"""The tab Processes: the processes on the devices, those of the shown run highlighted, and a button to end one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout

from core.language import join_sentences, tr, tr_noop
from gui.style.formatting import age, memory_size
from gui.style.text_size import scaled
from gui.viewmodels.devices.process_rows import ProcessRow, command_words
from gui.widgets.compact import compact_button
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.plain_text import verbatim
from gui.widgets.table import STRETCH, Column, RowsTable, empty_label

NONE_CHOSEN = tr_noop("Select a process first")
NARROW_PX, DEVICE_PX, NARROW_DEVICE_PX = 640, 104, 66
"""Below `NARROW_PX` the column of runs is hidden and the device column has room for one name."""


class ProcessesTab(QFrame):
    """The table, and below it a note and the button."""

    end_asked = Signal(object)
    """A `ProcessRow` that may be ended; the receiver asks the user first."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("processesTab")
        self.setAccessibleName(tr("Processes on the devices"))
        self.table = RowsTable(
            "processTable", tr("Processes on the devices"), _columns(), key=lambda row: row.key,
            sorted_by="memory_bytes")  # fmt: skip
        self.table.offer("processTableMenu", "processes")
        spoken = tr("End the selected process (asks first)")
        self.end_button = compact_button("endProcess", tr("End…"), role="danger", spoken=spoken)
        self.words = ElidedLabel()
        self.words.setObjectName("processWords")
        self.words.setProperty("role", "small")
        self.empty = empty_label()
        self.empty.setObjectName("noProcesses")
        self.empty.hide()
        self._problem = ""
        self.end_button.clicked.connect(self._request_end)
        self.table.chosen_changed.connect(self._show_selection)
        self._lay_out()
        self._show_selection()

    def show_rows(self, rows: Sequence[ProcessRow], *, empty: str, problem: str) -> None:
        """Show these processes. `empty`: text if there are none; `problem`: what could not be read."""
        self._problem = problem
        self.empty.setText(empty)
        self.empty.setVisible(not rows)
        self.table.show_rows(rows)
        self.table.setVisible(bool(rows))
        self.end_button.setVisible(bool(rows))
        self._show_selection()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """End the selected process on Delete."""
        if event.key() == Qt.Key.Key_Delete:
            self._request_end()
        else:
            super().keyPressEvent(event)

    def choose_device(self, device: str) -> None:
        """Select the first process on a device, by its id."""
        self.table.clearSelection()
        self.table.choose(next((row.key for row in self.table.rows if device in row.entry.devices), None))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Hide the column of runs if there is little room; the tooltip has the run."""
        super().resizeEvent(event)
        run, narrow = self.table.place("run"), event.size().width() < scaled(NARROW_PX)
        if narrow is not self.table.isColumnHidden(run):  # otherwise keep the widths that the user set
            self.table.setColumnHidden(run, narrow)
            width = NARROW_DEVICE_PX if narrow else DEVICE_PX
            self.table.horizontalHeader().resizeSection(self.table.place("devices"), width)

    def _request_end(self) -> None:
        row = self.table.chosen()
        if row is not None and not row.why_not:
            self.end_asked.emit(row)

    def _show_selection(self) -> None:
        row = self.table.chosen()
        why_not = tr(NONE_CHOSEN) if row is None else row.why_not
        self.end_button.setEnabled(not why_not)
        name = (
            ""
            if row is None
            else tr("End {name} (pid {pid}); asks first (Delete)", name=row.info.name, pid=row.info.pid)
        )
        self.end_button.setToolTip(verbatim(why_not or name))
        chosen = "" if row is None else row.why_not
        text = join_sentences([chosen, self._problem])
        if text != self.words.text():
            self.words.setText(text)

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.empty)
        layout.addWidget(self.table, 1)
        below = QHBoxLayout()
        layout.addLayout(below)
        below.setContentsMargins(6, 0, 0, 0)
        below.addWidget(self.words, 1)
        below.addWidget(self.end_button)
        layout.addStretch(0)


def _columns() -> list[Column[ProcessRow]]:
    columns: tuple[Column[ProcessRow], ...] = (
        Column("pid", lambda row: row.info.pid, "PID", is_number=True, width_px=72),
        Column("user", lambda row: row.info.user, tr("User"), width_px=68),
        Column("name", lambda row: row.info.name, tr("Name"), width_px=76),
        Column("command", lambda row: row.info.command, tr("Command"), lambda row: command_words(row.info),
               width_px=STRETCH),
        Column("age_s", lambda row: None if row.info.age_s is None else round(row.info.age_s, 1), tr("Age"),
               lambda row: age(row.info.age_s), is_number=True, is_descending=True, width_px=56),
        Column("memory_bytes", lambda row: row.info.memory_used_bytes, tr("Memory"),
               lambda row: memory_size(row.info.memory_used_bytes), is_number=True, is_descending=True, width_px=84),
        Column("devices", lambda row: row.entry.devices, tr("Device"), lambda row: row.devices or None,
               sort=lambda row: row.devices or None, width_px=DEVICE_PX),
        Column("run", lambda row: row.info.run_id, tr("Run"), lambda row: row.run, sort=lambda row: row.run or None,
               tone=lambda row: "accent" if row.of_this_run else _tone(row), width_px=116),
    )  # fmt: skip
    return [
        replace(each, tip=partial(_tip, each), tone=each.tone or _tone, is_bold=lambda row: row.of_this_run)
        for each in columns
    ]


def _tip(column: Column[ProcessRow], row: ProcessRow) -> str:
    return "\n".join(filter(None, dict.fromkeys((column.cell(row), row.run, row.why_not))))


def _tone(row: ProcessRow) -> str:
    return "muted" if row.why_not and not row.of_this_run else "text"
