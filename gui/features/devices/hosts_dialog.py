"""The other machines that the user has added: a list with their states, and a form to add one."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QPushButton, QWidget

from core.language import tr
from gui.base.theme import mark
from gui.widgets.dialogs import InfoDialog
from gui.widgets.fields import line
from gui.widgets.layouts import hbox
from gui.widgets.plain_text import PlainLabel
from gui.widgets.table import RowsTable, text_columns

WIDTH = 84
"""Width of the dialog, in letters."""
TABLE_LINES = 8
RESULT_LINES = 4

HostLine = tuple[str, str, str]
"""Name, address and state of a host."""


class HostsDialog(InfoDialog):
    """Says what the user wants; what came of it is shown with `show_result`."""

    test_asked = Signal(str)
    """The name of a host of the list."""
    removal_asked = Signal(str)
    addition_asked = Signal(str, str, str)
    """Address, name and command of a new host; name and command may be empty."""
    closed = Signal()

    def __init__(self, parent: QWidget, lines: Sequence[HostLine]) -> None:
        super().__init__(parent, name="hostsDialog", heading=tr("Hosts"))
        self._is_busy = False
        self._add_intro()
        self.table = self._add_table()
        self.test_button, self.remove_button, self._empty = self._add_actions()
        self.address, self.name, self.command = self._add_fields()
        self.addition = self._add_add_button()
        self._result = PlainLabel(name="hostResult", wraps=True)
        self._result.setMinimumHeight(self.lines(RESULT_LINES))
        self.content.addWidget(self._result)
        self._connect()
        self.show_lines(lines)
        self.address.setFocus()
        self.resize(self.characters(WIDTH), self.sizeHint().height())

    def show_lines(self, lines: Sequence[HostLine]) -> None:
        """Show these hosts; the selected one stays selected."""
        self.table.show_rows(lines)
        self._empty.setVisible(not lines)
        self._enable()

    def chosen(self) -> str:
        """Return the name of the selected host; the empty string if none is."""
        line = self.table.chosen()
        return line[0] if line is not None else ""

    def show_result(self, text: str, tone: str = "", *, busy: bool = False) -> None:
        """Show what came of a test or an addition. `busy`: it is under way, so that no other can be begun."""
        self._result.setText(text)
        mark(self._result, tone=tone)
        self._is_busy = busy
        self._enable()

    def clear_form(self) -> None:
        """Empty the fields of a new host."""
        for field in (self.address, self.name, self.command):
            field.clear()
        self.address.setFocus()

    def done(self, result: int) -> None:
        """Report that it is closed."""
        self.closed.emit()
        super().done(result)

    # -- parts -------------------------------------------------------------------------------------

    def _add_intro(self) -> None:
        intro = PlainLabel(
            tr(
                "The devices of these machines are listed below those of this machine. ssh must reach a machine "
                "without a password, and the same version of Trainyard must be installed there."
            )
        )
        intro.setWordWrap(True)
        self.content.addWidget(intro)

    def _add_table(self) -> RowsTable[Sequence[str]]:
        columns = text_columns((tr("Name"), tr("Address"), tr("State")))
        table = RowsTable("hostTable", tr("Hosts"), columns, key=lambda line: line[0])
        table.horizontalHeader().setStretchLastSection(True)
        table.setFixedHeight(self.lines(TABLE_LINES))
        self.content.addWidget(table)
        return table

    def _add_actions(self) -> tuple[QPushButton, QPushButton, PlainLabel]:
        """Add what can be done with the selected host, and what stands there while there is none."""
        test, remove = QPushButton(tr("&Test")), QPushButton(tr("&Remove…"))
        test.setObjectName("testHostButton")
        remove.setObjectName("removeHostButton")
        empty = PlainLabel(tr("No host has been added."), role="small")
        hbox(self.content, test, remove, empty, 0, gap=12)
        return test, remove, empty

    def _add_fields(self) -> tuple[QLineEdit, QLineEdit, QLineEdit]:
        address = line("hostAddressEdit", tr("Address"), tr("How ssh reaches the machine"))
        address.setPlaceholderText(tr("USER@HOST, ssh://USER@HOST:PORT, or a name of ~/.ssh/config"))
        name = line("hostNameEdit", tr("Name"), tr("The name of the host here"))
        name.setPlaceholderText(tr("the first part of the address"))
        command = line("hostCommandEdit", tr("Command"), tr("What starts Trainyard there, as the shell there reads it"))
        command.setPlaceholderText("trainyard")
        self._form = self.add_form(tr("Add a host"))
        for label, field in ((tr("Address"), address), (tr("Name"), name), (tr("Command"), command)):
            self._form.addRow(self.row_label(label, field), field)
        return address, name, command

    def _add_add_button(self) -> QPushButton:
        add = QPushButton(tr("Test and &add"))
        add.setObjectName("addHostButton")
        mark(add, role="primary")
        hbox(holder := QWidget(), add, 0)
        self._form.addRow("", holder)
        return add

    def _connect(self) -> None:
        for button in (self.test_button, self.remove_button, self.addition):
            button.setAutoDefault(False)
        self.table.chosen_changed.connect(self._enable)
        self.test_button.clicked.connect(lambda: self.test_asked.emit(self.chosen()))
        self.remove_button.clicked.connect(lambda: self.removal_asked.emit(self.chosen()))
        self.addition.clicked.connect(self._ask_to_add)
        for field in (self.address, self.name, self.command):
            field.textChanged.connect(lambda _: self._enable())
            field.returnPressed.connect(self._ask_to_add)

    def _ask_to_add(self) -> None:
        if self.addition.isEnabled():
            fields = (self.address, self.name, self.command)
            self.addition_asked.emit(*(field.text().strip() for field in fields))

    def _enable(self) -> None:
        free, chosen = not self._is_busy, bool(self.chosen())
        self.test_button.setEnabled(free and chosen)
        self.remove_button.setEnabled(free and chosen)
        self.addition.setEnabled(free and bool(self.address.text().strip()))
