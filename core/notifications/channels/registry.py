"""All channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.language import tr, tr_noop
from core.notifications.addresses import masked
from core.notifications.channels import apprise_services, command, desktop
from core.text import join_names

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from core.notifications.message import Message
    from core.notifications.settings import NotificationSettings


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
    from core.notifications.channels import web

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
        send=lambda given, message, timeout_s: command.run(given.command, message, timeout_s),
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
        send=lambda given, message, _: apprise_services.send(given.apprise, message),
    ),
)  # fmt: skip
