"""Show a message through the desktop's notification service, org.freedesktop.Notifications.

This asks D-Bus itself, with Jeepney: `notify-send` is missing on many desktops, and `gdbus` and `busctl` on some; none
of them tells a missing service from a refused message but in words for people.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from core.language import tr
from core.notifications.channels import NoDesktopError, NotDeliveredError
from core.system.installation import COMMAND
from resources import ROOT

if TYPE_CHECKING:
    from jeepney.io.blocking import DBusConnection

    from core.notifications.message import Message

BUS_VARIABLE = "DBUS_SESSION_BUS_ADDRESS"
SERVICE = "org.freedesktop.Notifications"
ABSENT = ("org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner")
"""Errors of a bus that has no notification service."""
CANNOT_START = "org.freedesktop.DBus.Error.Spawn."
"""How errors begin where the service is installed and cannot be started: there is no screen."""
NORMAL, DEFAULT_TIME = 1, -1


def bus_address() -> str:
    """Return the address of the user's session bus; the empty string if there seems to be none."""
    named = os.environ.get(BUS_VARIABLE, "")
    usual = Path(f"/run/user/{os.getuid()}/bus")  # a run that was started over SSH may reach the desktop there
    return named or (f"unix:path={usual}" if usual.is_socket() else "")


def show(message: Message, timeout_s: float) -> None:
    """Show a message. Raises `NotDeliveredError`."""
    address = bus_address()
    if not address:
        raise NoDesktopError(tr("There is no desktop here: no session bus was found."))
    from html import escape

    from jeepney import DBusErrorResponse
    from jeepney.auth import AuthenticationError
    from jeepney.io.blocking import open_dbus_connection

    try:
        connection = open_dbus_connection(address, auth_timeout=timeout_s)
    except (OSError, RuntimeError, ValueError, KeyError, AuthenticationError) as error:
        raise NoDesktopError(
            tr("The desktop's session bus cannot be reached: {why}.", why=_why(error)), detail=repr(error)
        ) from error
    with connection:
        try:
            has_markup = "body-markup" in _call(connection, timeout_s, "GetCapabilities")[0]
            text = escape(message.text, quote=False) if has_markup else message.text
            icon = (ROOT / "icons" / f"{COMMAND}.svg").as_uri()
            hints = {"urgency": ("y", NORMAL), "desktop-entry": ("s", COMMAND)}
            shown: tuple[object, ...] = ("Trainyard", 0, icon, message.title, text, [], hints, DEFAULT_TIME)
            _call(connection, timeout_s, "Notify", "susssasa{sv}i", shown)
        except DBusErrorResponse as error:
            if error.name in ABSENT or error.name.startswith(CANNOT_START):
                raise NoDesktopError(tr("This desktop session has no notification service.")) from error
            raise NotDeliveredError(
                tr("The desktop's notification service refused the message: {why}.", why=error.name), str(error)
            ) from error
        except TimeoutError as error:
            raise NotDeliveredError(
                tr("The desktop's notification service did not answer within {seconds:g} s.", seconds=timeout_s)
            ) from error
        except OSError as error:
            raise NotDeliveredError(
                tr("The desktop's session bus closed the connection: {why}.", why=_why(error))
            ) from error


def _call(
    connection: DBusConnection, timeout_s: float, method: str, signature: str | None = None, body: object = ()
) -> tuple[list[str], ...]:  # fmt: skip
    """Call a method of the service, and return its reply. Raises `DBusErrorResponse`, `TimeoutError` or `OSError`."""
    from jeepney import DBusAddress, new_method_call
    from jeepney.wrappers import unwrap_msg

    service = DBusAddress("/org/freedesktop/Notifications", bus_name=SERVICE, interface=SERVICE)
    request = new_method_call(service, method, signature, body)
    answer: tuple[list[str], ...] = unwrap_msg(connection.send_and_get_reply(request, timeout=timeout_s))
    return answer


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
