"""The menu of a device: copy its name or UUID, show its processes, tick it alone."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu, QWidget

from core.devices.host_names import own_id
from core.language import tr
from gui.viewmodels.devices.device_rows import DeviceRow
from gui.widgets.context_menu import add_action
from gui.widgets.plain_text import verbatim

UUIDS = ("GPU-", "MIG-")


class DeviceMenu(QMenu):
    """The menu of one device at a time; the signals carry its id."""

    processes_asked = Signal(str)
    alone_asked = Signal(str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("deviceMenu")
        self.setToolTipsVisible(True)
        self._id = self._name = ""
        self.copy_id = add_action(self, tr("Copy UUID"))
        self.copy_id.triggered.connect(lambda: QGuiApplication.clipboard().setText(self._id))
        self.copy_name = add_action(self, tr("Copy name"))
        self.copy_name.triggered.connect(lambda: QGuiApplication.clipboard().setText(self._name))
        self.addSeparator()
        self.processes = add_action(self, tr("Show its processes"))
        self.processes.triggered.connect(lambda: self.processes_asked.emit(self._id))
        self.tick_only = add_action(self, tr("Tick only this device"))
        self.tick_only.triggered.connect(lambda: self.alone_asked.emit(self._id))

    def show_device(self, row: DeviceRow) -> None:
        """Set the device that the menu is about."""
        self._id, self._name = row.id, row.full_name
        self.copy_id.setText(tr("Copy UUID") if own_id(row.id).startswith(UUIDS) else tr("Copy id"))
        self.copy_id.setToolTip(verbatim(row.id))
        self.copy_name.setToolTip(verbatim(row.full_name))
        self.processes.setVisible(not row.host)  # only those of this machine are listed
        why_not = tr(row.lost or "") or row.why_blocked
        self.tick_only.setEnabled(not why_not)
        self.tick_only.setToolTip(verbatim(why_not or tr("Untick all other devices")))
