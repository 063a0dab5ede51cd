"""The tab Processes: the processes on the devices, and a button to end one."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout

from core.language import join_sentences, tr, tr_noop
from gui.viewmodels.devices.process_rows import ProcessRow, process_table
from gui.widgets.compact import compact_button
from gui.widgets.context_menu import give_menu, table_entries
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.plain_text import verbatim
from gui.widgets.table import empty_label

from .process_table import ProcessTable

NONE_CHOSEN = tr_noop("Select a process first")


class ProcessesTab(QFrame):
    """The table, and below it a note and the button."""

    end_asked = Signal(object)
    """A `ProcessRow` that may be ended; the receiver asks the user first."""
    table_asked = Signal(str, object)
    """The table is to be copied or saved: `markdown`, `csv` or `file`, and its `TableText`."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("processesTab")
        self.setAccessibleName(tr("Processes on the devices"))
        self.table = ProcessTable()
        give_menu(self.table, "processTableMenu", lambda _: table_entries(self._ask_for_table))
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
        self.table.itemSelectionChanged.connect(self._show_selection)
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

    def _ask_for_table(self, form: str) -> None:
        self.table_asked.emit(form, process_table(self.table.rows))

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
