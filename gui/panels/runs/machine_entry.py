"""The entry above the runs: this machine, with no run shown."""

from __future__ import annotations

from PySide6.QtWidgets import QPushButton, QWidget

from core.language import tr, tr_noop
from gui.widgets.plain_text import menu_text, verbatim

TITLE = tr_noop("This machine")
TIP = tr_noop("Show the devices of this machine and what they did in the last hour, without a run (Esc)")


class MachineEntry(QPushButton):
    """Checked while no run is shown. A click leaves the shown run; pressing it again changes nothing."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr(TITLE), parent)
        self.setObjectName("machineEntry")
        self.setProperty("role", "segment")
        self.setStyleSheet("QPushButton { text-align: left; padding-left: 26px; }")
        self.setCheckable(True)
        self.setChecked(True)
        self.setToolTip(tr(TIP))
        self.setAccessibleDescription(tr(TIP))
        self.setAutoDefault(False)

    def show_host(self, name: str) -> None:
        """Name another machine, whose runs are listed."""
        tip = tr("Show the devices of {host} and what they did in the last hour, without a run (Esc)", host=name)
        self.setText(menu_text(name))
        self.setToolTip(verbatim(tip))
        self.setAccessibleDescription(tip)

    def show_chosen(self, *, chosen: bool) -> None:
        """Mark that no run is shown."""
        self.setChecked(chosen)
