"""Ask a host whether it answers, in the background: it may take as long as a network or a machine likes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

if TYPE_CHECKING:
    from core.hosts.host_list import Host
    from core.hosts.inquiry import Inquiry

POLL_MS = 50


class HostTester(QObject):
    """One test at a time. Its timer runs only while one is under way."""

    tested = Signal(object)
    """A `HostReport`."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._inquiry: Inquiry | None = None
        self._timer = QTimer(self)
        self._timer.setInterval(POLL_MS)
        self._timer.timeout.connect(self._poll)

    def test(self, host: Host) -> None:
        """Ask a host for its clock and its devices. A test that is under way is given up."""
        from core.hosts.inquiry import Inquiry  # not at the start of the window

        self.close()
        self._inquiry = Inquiry([host], devices=True)
        self._timer.start()

    def close(self) -> None:
        """Give the test up, without waiting for its end."""
        self._timer.stop()
        if self._inquiry is not None:
            self._inquiry.give_up()
            self._inquiry = None

    def _poll(self) -> None:
        inquiry = self._inquiry
        if inquiry is not None and inquiry.is_over:
            self.close()
            self.tested.emit(inquiry.reports()[0])
