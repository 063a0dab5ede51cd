"""Send a test message in the background: a service on the web may take long to answer."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal

from core.language import tr
from core.notifications.delivery import deliver
from core.notifications.message import trial_message
from core.notifications.settings import NotificationSettings
from gui.services.background_task import BackgroundTask, reason
from gui.viewmodels.notifications import trial_result

POLL_MS = 100


class NotificationTester(QObject):
    """Its timer runs only while a test is under way."""

    tested = Signal(str, str)
    """What became of the message, and its tone."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._task: BackgroundTask[tuple[str, str]] = BackgroundTask("notify")
        self._timer = QTimer(self)
        self._timer.setInterval(POLL_MS)
        self._timer.timeout.connect(self._poll)

    def test(self, settings: NotificationSettings) -> None:
        """Send a message to all channels that are set, unless one is being sent."""
        if self._task.start(lambda: trial_result(deliver(settings, trial_message())), _failed):
            self._timer.start()

    def _poll(self) -> None:
        if (result := self._task.poll()) is not None:
            self._timer.stop()
            self.tested.emit(*result)


def _failed(error: Exception) -> tuple[str, str]:
    return tr("The test message could not be sent: {reason}.", reason=reason(error)), "bad"
