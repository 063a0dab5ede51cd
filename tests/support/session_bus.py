"""A D-Bus of a test's own, and services on it: for notifications, systemd-logind, and systemd."""

import contextlib
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jeepney import DBusAddress, HeaderFields, Message, MessageType, new_error, new_method_return, new_signal
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import DBusConnection, open_dbus_connection

from core.notifications.channels import BUS_VARIABLE, SERVICE
from core.system.logout import LOGIND
from tests.support.packages import BUS, missing

SYSTEM_BUS_VARIABLE = "DBUS_SYSTEM_BUS_ADDRESS"
SYSTEMD = "org.freedesktop.systemd1"
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
    """Run a bus and name it in the environment as that of the session and of the system; yield its address."""
    program = shutil.which("dbus-daemon")
    if program is None:
        pytest.skip(missing(BUS))
    configuration = folder / "session.conf"
    configuration.write_text(CONFIGURATION.format(folder="/tmp"))  # a path of a socket has at most 107 characters
    command = [program, f"--config-file={configuration}", "--nofork", "--print-address"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon, pytest.MonkeyPatch.context() as patch:
        try:
            assert daemon.stdout is not None
            address = daemon.stdout.readline().strip()
            patch.setenv(BUS_VARIABLE, address)
            patch.setenv(SYSTEM_BUS_VARIABLE, address)
            yield address
        finally:
            daemon.terminate()  # and not killed: it removes its socket


class Service:
    """Answers on a bus under a name, on a thread of its own."""

    def __init__(self, address: str, name: str) -> None:
        self._connection: DBusConnection = open_dbus_connection(address)
        self._connection.send_and_get_reply(message_bus.RequestName(name))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Any:
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
                    for message in self.answers(request.header.fields[HeaderFields.member], request):
                        self._connection.send(message)

    def answers(self, method: str, request: Message) -> list[Message]:
        """Return what to send when a method is called."""
        raise NotImplementedError


class NotificationService(Service):
    """Records notifications. `capabilities`: those that it names; `error`: the name of an error that it answers."""

    def __init__(self, address: str, *, capabilities: Sequence[str] = ("body",), error: str = "") -> None:
        super().__init__(address, SERVICE)
        self.shown: list[Shown] = []
        self._capabilities, self._error = list(capabilities), error

    def answers(self, method: str, request: Message) -> list[Message]:
        if method == "GetCapabilities":
            return [new_method_return(request, "as", (self._capabilities,))]
        if self._error:
            return [new_error(request, self._error)]
        application, _, _, title, text, _, hints, _ = request.body
        self.shown.append(Shown(application, title, text, hints["urgency"][1]))
        return [new_method_return(request, "u", (len(self.shown),))]


class LoginService(Service):
    """Stands in for systemd-logind. `properties`: by name, signature and value; it knows no others. It counts requests.

    `silent`: it does not answer.
    """

    def __init__(self, address: str, properties: Mapping[str, tuple[str, object]], *, silent: bool = False) -> None:
        super().__init__(address, LOGIND)
        self._properties, self._silent = properties, silent
        self.asked: list[str] = []

    def answers(self, method: str, request: Message) -> list[Message]:
        name = request.body[1]
        self.asked.append(name)
        if self._silent:
            return []
        if name not in self._properties:
            return [new_error(request, "org.freedesktop.DBus.Error.UnknownObject")]
        return [new_method_return(request, "v", (self._properties[name],))]


class UserManager(Service):
    """Stands in for the systemd of a user: it records the scopes that it is asked to start, and moves no process."""

    def __init__(self, address: str) -> None:
        super().__init__(address, SYSTEMD)
        self.scopes: list[dict[str, Any]] = []
        """The properties of each."""

    def answers(self, method: str, request: Message) -> list[Message]:
        if method == "Get":  # the id of this start of the scope
            return [new_method_return(request, "v", (("ay", bytes(range(16))),))]
        if method != "StartTransientUnit":
            return [new_method_return(request)]
        unit, _, given, _ = request.body
        self.scopes.append({name: value for name, (_, value) in given})
        job = f"/org/freedesktop/systemd1/job/{len(self.scopes)}"
        manager = DBusAddress("/org/freedesktop/systemd1", interface=f"{SYSTEMD}.Manager")
        done = new_signal(manager, "JobRemoved", "uoss", (len(self.scopes), job, unit, "done"))
        return [new_method_return(request, "o", (job,)), done]
