"""The entry above the runs: this machine, with no run shown."""

from __future__ import annotations

from PySide6.QtWidgets import QPushButton

from core.language import tr, tr_noop
from gui.style.icons import ButtonIcon
from gui.widgets.plain_text import menu_text, verbatim

ICON_PX, ICON_GAP_PX = 13, 5
"""Side of the icon, and room between it and the text, which begins where the names of the runs below do."""
TITLE = tr_noop("This machine")
TIP = tr_noop("Show the devices of this machine and what they did in the last hour, without a run (Esc)")


class MachineEntry(QPushButton):
    """Checked while no run is shown. A click leaves the shown run; pressing it again changes nothing."""

    def __init__(self) -> None:
        super().__init__(tr(TITLE))
        self.setObjectName("machineEntry")
        self.setProperty("role", "segment")
        self.setStyleSheet("QPushButton { text-align: left; padding-left: 6px; }")
        self.setCheckable(True)
        self.setChecked(True)
        self.setToolTip(tr(TIP))
        self.setAccessibleDescription(tr(TIP))
        self.setAutoDefault(False)
        ButtonIcon(self, "machine", side=ICON_PX, gap=ICON_GAP_PX)

    def show_host(self, name: str) -> None:
        """Name another machine, whose runs are listed."""
        tip = tr("Show the devices of {host} and what they did in the last hour, without a run (Esc)", host=name)
        self.setText(menu_text(name))
        self.setToolTip(verbatim(tip))
        self.setAccessibleDescription(tip)

    def show_chosen(self, *, chosen: bool) -> None:
        """Mark that no run is shown."""
        self.setChecked(chosen)
