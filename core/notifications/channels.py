"""A channel, through which messages reach a user; those through a command and through the library Apprise.

`core.notifications.settings` has the channels, a row each. Apprise is an extra: `pip install 'trainyard[apprise]'`.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from core.language import tr, tr_noop
from core.runs.facts import RunState
from core.system.helper_process import HelperProcess, clean_environment
from core.text import join_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from core.notifications.message import Message


FINISHED, STOPPED, FAILED, LOST, STALLED = "finished", "stopped", "failed", "lost", "stalled"
OCCASIONS = {
    FINISHED: tr_noop("a run finishes"),
    STOPPED: tr_noop("a run is stopped or paused"),
    FAILED: tr_noop("a run fails"),
    LOST: tr_noop("a run is lost"),
    STALLED: tr_noop("a run makes no progress"),
}
"""What a user can be notified of; in settings files and on the command line by these names."""
OCCASION_OF = {
    RunState.FINISHED: FINISHED, RunState.STOPPED: STOPPED, RunState.PAUSED: STOPPED, RunState.FAILED: FAILED,
    RunState.LOST: LOST, RunState.HEAD_LOST: LOST,
}  # fmt: skip
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
    try:
        process = HelperProcess(
            ["/bin/sh", "-c", command], cwd=_home(), environment={**clean_environment(), **variables(message)},
            stdin=True, stderr=-1,
        )  # fmt: skip
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
            # Its output stays out of the run_command: it may show an address.
            detail = process.errors.decode(errors="replace").strip()[:MAX_DETAIL]
            raise NotDeliveredError(tr("The command failed: {ending}.", ending=ending), detail)


def variables(message: Message) -> dict[str, str]:
    """Return the environment variables that a command finds."""
    parts = {
        "TITLE": message.title, "TEXT": message.text, "OCCASION": message.occasion or "test",
        "RUNS": "\n".join(each.run_dir for each in message.news),
    }  # fmt: skip
    return {f"NOTIFICATION_{name}": text.replace("\0", "?")[:MAX_ENVIRONMENT] for name, text in parts.items()}


def _home() -> str:
    home = Path.home()
    return str(home) if home.is_dir() else "/"


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
        )  # fmt: skip
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
    return tr(
        "An address for Apprise must be SERVICE://..., for instance mailto://USER:PASSWORD@HOST. {name} is none.",
        name=repr(masked(address)),
    )


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
        return tr(
            "{address} has a space or a character that addresses cannot have. Write it with percent signs, as a "
            "browser shows it when it is copied.",
            address=named,
        )
    return ""
