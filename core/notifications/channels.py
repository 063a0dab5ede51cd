"""Channels, through which messages reach a user: the desktop, a command, web services, the library Apprise.

`core.notifications.settings` has the channels, a row each. Apprise is an extra: `pip install 'trainyard[apprise]'`.
"""

from __future__ import annotations

import json
import logging
import os
import re
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from core.language import tr, tr_noop
from core.runs.facts import RunState
from core.system.helper_process import HelperProcess, clean_environment
from core.system.installation import COMMAND
from core.text import join_names
from resources import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from urllib.request import Request

    from jeepney.io.blocking import DBusConnection

    from core.notifications.message import Message


FINISHED, STOPPED, FAILED, LOST, NAN, STALLED = "finished", "stopped", "failed", "lost", "nan", "stalled"
GONE, HOT, DISK, UNRELEASED = "gone", "hot", "disk", "held"


class Occasion(NamedTuple):
    """An occasion for a notification. The settings, their dialog, messages and the bell are made from these rows.

    `headline`: of a message about one run, or the machine; `number`, `names`: about several. `states`: those in which a
    run is over so; an alarm has none. `tag`: an emoji of ntfy. `since`: the first version of the settings file with it.
    """

    title: str
    headline: str
    number: str
    names: str
    states: tuple[RunState, ...] = ()
    is_bad: bool = False
    tag: str = "warning"
    since: int = 1


OCCASIONS = {
    FAILED: Occasion(tr_noop("a run fails"), tr_noop("{name} has failed"), tr_noop("{count} failed"),
                     tr_noop("Failed: {names}."), (RunState.FAILED,), is_bad=True, tag="x"),
    LOST: Occasion(tr_noop("a run is lost"), tr_noop("{name} was lost"), tr_noop("{count} lost"),
                   tr_noop("Lost: {names}."), (RunState.LOST, RunState.HEAD_LOST), is_bad=True, tag="x"),
    GONE: Occasion(tr_noop("a GPU no longer answers"), tr_noop("{name}: a GPU no longer answers"),
                   tr_noop("{count} × lost GPU"), tr_noop("Lost GPU: {names}."), is_bad=True, since=2),
    NAN: Occasion(tr_noop("the loss of a run becomes NaN"), tr_noop("{name}: the loss became NaN"),
                  tr_noop("{count} with NaN"), tr_noop("Loss became NaN: {names}.")),
    STALLED: Occasion(tr_noop("a run makes no progress"), tr_noop("{name} makes no progress"),
                      tr_noop("{count} without progress"), tr_noop("No progress: {names}.")),
    HOT: Occasion(tr_noop("a GPU is too hot"), tr_noop("{name}: a GPU is too hot"),
                  tr_noop("{count} × hot GPU"), tr_noop("Hot GPU: {names}."), since=2),
    DISK: Occasion(tr_noop("the disk is nearly full"), tr_noop("{name}: the disk is nearly full"),
                   tr_noop("{count} × full disk"), tr_noop("Disk nearly full: {names}."), since=2),
    UNRELEASED: Occasion(tr_noop("memory is held after a run"), tr_noop("{name}: memory was not released"),
                         tr_noop("{count} × memory held"), tr_noop("Memory not released: {names}."), since=2),
    STOPPED: Occasion(tr_noop("a run is stopped or paused"), tr_noop("{name} was stopped"), tr_noop("{count} stopped"),
                      tr_noop("Stopped: {names}."), (RunState.STOPPED, RunState.PAUSED), tag=""),
    FINISHED: Occasion(tr_noop("a run finishes"), tr_noop("{name} has finished"), tr_noop("{count} finished"),
                       tr_noop("Finished: {names}."), (RunState.FINISHED,), tag="white_check_mark"),
}
"""By their names in settings files and on the command line, the worst first."""
OCCASION_OF = {state: name for name, row in OCCASIONS.items() for state in row.states}
"""By the state in which a run is over."""


class NotDeliveredError(Exception):
    """A message was not delivered. `str()` is a sentence; `detail` is for the user alone."""

    def __init__(self, sentence: str, detail: str = "") -> None:
        super().__init__(sentence)
        self.detail = detail


class NoDesktopError(NotDeliveredError):
    """There is no desktop that could show a message, as on a server. This is no failure."""


class TemporaryError(NotDeliveredError):
    """A service cannot be reached, or cannot take a message now; it may be able to a little later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A way to reach a user. Its setting is a text, several texts, or a switch."""

    name: str = ""
    """The name of the setting, of the option of `notify`, and of the field in the window."""
    title: str
    help: str
    """What the setting is: a sentence without a stop."""
    not_delivered: str
    """The sentence that a run records when its message was not delivered; `{why}` is the reason."""
    send: Callable[[Any, Message, float], None]
    """Takes the value of the setting, and the seconds that it may need. Raises `NotDeliveredError`."""
    check: Callable[[str], str] = lambda _: ""
    """Returns why a text cannot be used; the empty string if it can."""
    example: str = ""
    is_address: bool = True
    """Whether it is the address of a service, which is a secret in most cases."""

    def shown(self, value: bool | str | tuple[str, ...]) -> str:
        """Return where it leads, without secrets."""
        if isinstance(value, bool):
            return tr("on") if value else tr("off")
        texts = [each for each in ((value,) if isinstance(value, str) else value) if each.strip()]
        return join_names(masked(each) if self.is_address else f"{each.split()[0]} …" for each in texts)


MAX_DETAIL = 2000
MAX_ENVIRONMENT = 4000
"""Characters of a variable."""


def run_command(command: str, message: Message, timeout_s: float) -> None:
    """Run a line of the shell: the text is its input, and variables have its parts. Raises `NotDeliveredError`."""
    home = Path.home()
    try:
        process = HelperProcess(
            ["/bin/sh", "-c", command], cwd=str(home) if home.is_dir() else "/", stdin=True, stderr=-1,
            environment={**clean_environment(), **variables(message)},
        )
    except OSError as error:
        raise NotDeliveredError(tr("The command could not be started: {strerror}.", strerror=error.strerror)) from error
    with process:
        process.send(f"{message.text}\n".encode())
        process.end_input()
        try:
            process.wait(timeout_s)
        except TimeoutError:
            raise NotDeliveredError(
                tr("The command did not end within {seconds:g} s, and was ended.", seconds=timeout_s)
            ) from None
        except ValueError as error:
            raise NotDeliveredError(tr("The command was ended: it printed too much.")) from error
        if ending := process.ending():
            # Its output stays out of the run: it may show an address.
            detail = process.errors.decode(errors="replace").strip()[:MAX_DETAIL]
            raise NotDeliveredError(tr("The command failed: {ending}.", ending=ending), detail)


def variables(message: Message) -> dict[str, str]:
    """Return the environment variables that a command finds."""
    parts = {
        "TITLE": message.title, "TEXT": message.text, "OCCASION": message.occasion or "test",
        "RUNS": "\n".join(each.run_dir for each in message.news),
    }
    return {f"NOTIFICATION_{name}": text.replace("\0", "?")[:MAX_ENVIRONMENT] for name, text in parts.items()}


def send_by_apprise(addresses: Sequence[str], message: Message) -> None:
    """Send a message to each address, also after one that failed. Raises `NotDeliveredError`."""
    try:
        import apprise
    except ImportError:
        raise NotDeliveredError(tr("Apprise is not installed. Install it: pip install 'trainyard[apprise]'")) from None
    log = logging.getLogger("apprise")
    log.propagate, log.handlers = False, [logging.NullHandler()]  # its lines show addresses
    unknown, failed = [], []
    for address in addresses:
        service = apprise.Apprise.instantiate(address)  # a group of several would leave a thread behind
        if service is None:
            unknown.append(masked(address))
        elif not service.notify(title=message.title, body=message.text, body_format=apprise.NotifyFormat.TEXT):
            failed.append(masked(address))
    if unknown:
        raise NotDeliveredError(
            tr("Apprise does not know the address {names}. Its documentation lists all services.",
               names=join_names(unknown))
        )
    if failed:
        raise NotDeliveredError(tr("Apprise could not deliver to {names}.", names=join_names(failed)))


# -- addresses ----------------------------------------------------------------------------------------


WEB = ("https", "http")
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://\S", re.IGNORECASE)


def web_problem(address: str) -> str:
    """Return why a webhook cannot have this address; the empty string if it can, or if it is empty."""
    return _problem(address, tr("The webhook's address"))


def ntfy_problem(address: str) -> str:
    """Return why this cannot be the address of a topic of ntfy; the empty string if it can, or if it is empty."""
    named = tr("The address for ntfy")
    if problem := _problem(address, named):
        return problem
    if address and not urlsplit(address).path.strip("/"):
        return tr("{address} has no topic. Write it as https://ntfy.sh/TOPIC.", address=named)
    return ""


def apprise_problem(address: str) -> str:
    """Return why this cannot be an address for Apprise; the empty string if it can. Only Apprise knows its schemes."""
    if SCHEME.match(address) and address.isprintable():
        return ""
    return tr("An address for Apprise must be SERVICE://..., for instance mailto://USER:PASSWORD@HOST. {name} is none.",
              name=repr(masked(address)))


def masked(address: str) -> str:
    """Return an address for a log: the host of a web address, only the scheme of another. The rest may be secret."""
    try:
        parts = urlsplit(address)
        if parts.scheme in WEB and parts.hostname:
            return host_of(parts)
    except ValueError:
        return "…"
    return f"{parts.scheme}://…" if parts.scheme and address.isprintable() else "…"


def host_of(parts: SplitResult) -> str:
    """Return the host of a web address, and its port if it has one."""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{host}:{parts.port}" if parts.port is not None else host


def _problem(address: str, named: str) -> str:
    if not address:
        return ""
    try:
        parts = urlsplit(address)
        has_host, _ = bool(parts.hostname), parts.port  # a wrong port raises
    except ValueError:
        return tr("{address} is malformed. Write it as https://HOST/PATH.", address=named)
    if parts.scheme not in WEB or not has_host:
        return tr("{address} must begin with https:// or http:// and a host.", address=named)
    if not address.isascii() or not address.isprintable() or " " in address:
        return tr("{address} has a space or a character that addresses cannot have. Write it with percent signs, as a "
                  "browser shows it when it is copied.", address=named)
    return ""


# -- the desktop, which D-Bus is asked for itself, with Jeepney: `notify-send` is missing on many desktops, and `gdbus`
# and `busctl` on some; none of them tells a missing service from a refused message but in words for people


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


def show_on_desktop(message: Message, timeout_s: float) -> None:
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
) -> tuple[list[str], ...]:
    """Call a method of the service, and return its reply. Raises `DBusErrorResponse`, `TimeoutError` or `OSError`."""
    from jeepney import DBusAddress, new_method_call
    from jeepney.wrappers import unwrap_msg

    service = DBusAddress("/org/freedesktop/Notifications", bus_name=SERVICE, interface=SERVICE)
    request = new_method_call(service, method, signature, body)
    answer: tuple[list[str], ...] = unwrap_msg(connection.send_and_get_reply(request, timeout=timeout_s))
    return answer


# -- web services -------------------------------------------------------------------------------------


AGENT = "Trainyard"
NTFY_LIMIT, NTFY_NORMAL, NTFY_HIGH = 3500, 3, 4
"""Characters of a text that ntfy shows as such, and two of its priorities."""
TEMPORARY = (408, 425, 429)
"""Answers of a server that may take the message later, besides those from 500 on."""


def post_to_webhook(address: str, message: Message, timeout_s: float) -> None:
    """Post a message as JSON. Raises `NotDeliveredError`."""
    _post(address, message.to_json(), timeout_s)


def post_to_ntfy(address: str, message: Message, timeout_s: float) -> None:
    """Publish a message in the topic of this address. Raises `NotDeliveredError`.

    As JSON, since headers, in which the title would otherwise be, have no other letters than Latin ones.
    """
    parts = urlsplit(address)
    folder, _, topic = parts.path.rstrip("/").rpartition("/")
    server = urlunsplit(parts._replace(path=f"{folder}/", fragment=""))
    document = {
        "topic": unquote(topic), "title": message.title, "message": message.text[:NTFY_LIMIT],
        "priority": NTFY_HIGH if message.is_bad else NTFY_NORMAL,
    }
    if message.occasion and (tag := OCCASIONS[message.occasion].tag):
        document["tags"] = [tag]
    _post(server, document, timeout_s)


def _post(address: str, document: object, timeout_s: float) -> None:
    import ssl  # these are imported here: each command knows the channels, and hardly any sends a message
    from http import HTTPStatus
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPRedirectHandler, build_opener

    class NoRedirect(HTTPRedirectHandler):  # redirects are errors: urllib would follow one without the message
        def redirect_request(self, *_: object) -> None:
            return None

    host = host_of(urlsplit(address))
    try:
        request = _request(address, json.dumps(document).encode())
        with build_opener(NoRedirect).open(request, timeout=timeout_s):
            return
    except HTTPError as error:
        error.close()
        kind = TemporaryError if error.code in TEMPORARY or error.code >= 500 else NotDeliveredError
        # The words of the standard and not those of the answer, which may repeat what is secret in the address.
        reason = next((each.phrase for each in HTTPStatus if each == error.code), "")
        raise kind(
            tr("{host} answered {code} {reason}.", host=host, code=error.code, reason=reason).replace(" .", ".")
        ) from None
    except TimeoutError:
        raise _did_not_answer(host, timeout_s) from None
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise _did_not_answer(host, timeout_s) from None
        kind = NotDeliveredError if isinstance(error.reason, ssl.SSLError) else TemporaryError
        raise kind(tr("{host} cannot be reached: {why}.", host=host, why=_why(error.reason))) from None
    except (HTTPException, ValueError):  # their texts may repeat the address
        raise NotDeliveredError(tr("{host} did not answer as a web server does.", host=host)) from None
    except OSError as error:
        raise TemporaryError(tr("{host} cannot be reached: {why}.", host=host, why=_why(error))) from None


def _request(address: str, body: bytes) -> Request:
    """Return a request. A user and a password in the address become a header."""
    from urllib.request import Request

    parts = urlsplit(address)
    headers = {"Content-Type": "application/json", "User-Agent": AGENT}
    if parts.username is not None or parts.password is not None:
        secret = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(secret.encode()).decode()}"
    plain = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))
    return Request(plain, data=body, headers=headers, method="POST")  # noqa: S310 (checked: http or https)


def _did_not_answer(host: str, timeout_s: float) -> TemporaryError:
    return TemporaryError(tr("{host} did not answer within {seconds:g} s.", host=host, seconds=timeout_s))


def _why(reason: object) -> str:
    """Return why a connection failed. An error of TLS has a sentence on the certificate, or a reason."""
    said = getattr(reason, "verify_message", "") or getattr(reason, "reason", "") or getattr(reason, "strerror", "")
    return str(said or type(reason).__name__)
