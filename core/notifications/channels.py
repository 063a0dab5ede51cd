"""All ways to reach a user, one row each; those through a command of the user and through the library Apprise.

Apprise is an extra: `pip install 'trainyard[apprise]'`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.language import tr, tr_noop
from core.notifications import desktop
from core.notifications.message import NotDeliveredError
from core.notifications.settings import masked
from core.system.helper_process import HelperProcess, clean_environment
from core.text import join_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from core.notifications.message import Message
    from core.notifications.settings import NotificationSettings


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A way to reach a user."""

    name: str
    """The name of its setting."""
    title: str
    not_delivered: str
    """The sentence that a run records when its message was not delivered; `{why}` is the reason."""
    shown: Callable[[NotificationSettings], str]
    """Returns where it leads, without secrets."""
    send: Callable[[NotificationSettings, Message, float], None]
    """Takes also the seconds that it may need. Raises `NotDeliveredError`."""

    def is_set(self, settings: NotificationSettings) -> bool:
        """Return whether messages are sent through it."""
        return bool(getattr(settings, self.name))


def _web() -> ModuleType:
    """Import what talks to web servers: each command knows the channels, and hardly any sends a message."""
    from core.notifications import web

    return web


CHANNELS = (
    Channel(
        name="desktop", title=tr_noop("Desktop"),
        not_delivered=tr_noop("The notification could not be shown on the desktop. {why}"),
        shown=lambda given: tr("on") if given.desktop else tr("off"),
        send=lambda _, message, timeout_s: desktop.show(message, timeout_s),
    ),
    Channel(
        name="command", title=tr_noop("Command"),
        not_delivered=tr_noop("The notification could not be sent by your command. {why}"),
        shown=lambda given: f"{given.command.split()[0]} …" if given.command.strip() else "",
        send=lambda given, message, timeout_s: run_command(given.command, message, timeout_s),
    ),
    Channel(
        name="webhook", title=tr_noop("Webhook"),
        not_delivered=tr_noop("The notification could not be sent to your webhook. {why}"),
        shown=lambda given: masked(given.webhook) if given.webhook else "",
        send=lambda given, message, timeout_s: _web().post_to_webhook(given.webhook, message, timeout_s),
    ),
    Channel(
        name="ntfy", title="ntfy",
        not_delivered=tr_noop("The notification could not be sent to ntfy. {why}"),
        shown=lambda given: masked(given.ntfy) if given.ntfy else "",
        send=lambda given, message, timeout_s: _web().post_to_ntfy(given.ntfy, message, timeout_s),
    ),
    Channel(
        name="apprise", title="Apprise",
        not_delivered=tr_noop("The notification could not be sent through Apprise. {why}"),
        shown=lambda given: join_names(map(masked, given.apprise)),
        send=lambda given, message, _: send_by_apprise(given.apprise, message),
    ),
)  # fmt: skip
