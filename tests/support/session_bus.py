"""A D-Bus session of a test's own, and a notification service on it that records what it is asked to show."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from jeepney import HeaderFields, MessageType, new_error, new_method_return
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import open_dbus_connection

from core.notifications.channels.desktop import BUS_VARIABLE, SERVICE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from jeepney import Message
    from jeepney.io.blocking import DBusConnection

CONFIGURATION = """\
<busconfig>
  <type>session</type>
  <listen>unix:dir={folder}</listen>
  <policy context="default"><allow send_destination="*"/><allow eavesdrop="true"/><allow own="*"/></policy>
</busconfig>
"""
"""No service can be started by it: what a desktop installed on this machine would offer is not asked."""


@dataclass(frozen=True)
class Shown:
    """What the service was asked to show."""

    application: str
    title: str
    text: str
    urgency: int


@contextlib.contextmanager
def session_bus(folder: Path) -> Iterator[str]:
    """Run a bus and name it in the environment, as a desktop session does; yield its address."""
    program = shutil.which("dbus-daemon")
    if program is None:
        pytest.skip("dbus-daemon is not installed (Debian: apt install dbus-daemon)")
    configuration = folder / "session.conf"
    configuration.write_text(CONFIGURATION.format(folder="/tmp"))  # a path of a socket has at most 107 characters
    command = [program, f"--config-file={configuration}", "--nofork", "--print-address"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon, pytest.MonkeyPatch.context() as patch:
        try:
            assert daemon.stdout is not None
            address = daemon.stdout.readline().strip()
            patch.setenv(BUS_VARIABLE, address)
            yield address
        finally:
            daemon.kill()


class NotificationService:
    """Records notifications. `capabilities`: those that it names; `error`: the name of an error that it answers."""

    def __init__(self, address: str, *, capabilities: Sequence[str] = ("body",), error: str = "") -> None:
        self.shown: list[Shown] = []
        self._capabilities, self._error = list(capabilities), error
        self._connection: DBusConnection = open_dbus_connection(address)
        self._connection.send_and_get_reply(message_bus.RequestName(SERVICE))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> NotificationService:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._connection.close()

    def _serve(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                request = self._connection.receive(timeout=0.1)
                if request.header.message_type is MessageType.method_call:
                    self._connection.send(self._answer(request))

    def _answer(self, request: Message) -> Message:
        if request.header.fields[HeaderFields.member] == "GetCapabilities":
            return new_method_return(request, "as", (self._capabilities,))
        if self._error:
            return new_error(request, self._error)
        application, _, _, title, text, _, hints, _ = request.body
        self.shown.append(Shown(application, title, text, hints["urgency"][1]))
        return new_method_return(request, "u", (len(self.shown),))
