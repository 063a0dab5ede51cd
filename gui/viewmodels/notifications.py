"""The settings of notifications as a form has them, and what became of a test message."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from core.language import join_sentences, tr
from core.notifications.channels.registry import CHANNELS
from core.text import join_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.notifications.delivery import Outcome
    from core.notifications.settings import NotificationSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationFields:
    """What is in the fields of the form."""

    desktop: bool
    command: str
    webhook: str
    ntfy: str
    apprise: str
    """Addresses with spaces between them."""
    occasions: tuple[str, ...]
    min_duration_s: int

    @classmethod
    def of(cls, settings: NotificationSettings) -> NotificationFields:
        """Return the fields for settings."""
        return cls(
            desktop=settings.desktop, command=settings.command, webhook=settings.webhook, ntfy=settings.ntfy,
            apprise=" ".join(settings.apprise), occasions=settings.occasions,
            min_duration_s=round(settings.min_duration_s),
        )  # fmt: skip

    def apply_to(self, settings: NotificationSettings) -> tuple[NotificationSettings, str]:
        """Return settings with each field that is valid, and why others are not: sentences, or the empty string."""
        values: dict[str, object] = {
            "desktop": self.desktop, "command": self.command.strip(), "webhook": self.webhook.strip(),
            "ntfy": self.ntfy.strip(), "apprise": tuple(self.apprise.split()), "occasions": self.occasions,
        }  # fmt: skip
        if self.min_duration_s != round(settings.min_duration_s):  # else it may have been set more exactly
            values["min_duration_s"] = float(self.min_duration_s)
        problems = []
        for name, value in values.items():
            settings, problem = _with(settings, {name: value})
            problems.append(problem)
        return settings, join_sentences(problems)


def _with(settings: NotificationSettings, value: dict[str, Any]) -> tuple[NotificationSettings, str]:
    try:
        return replace(settings, **value), ""
    except ValueError as error:
        return settings, str(error)


def channels_in_use(settings: NotificationSettings) -> str:
    """Return the names of the channels that are set, for a line."""
    return join_names(tr(each.title) for each in CHANNELS if each.is_set(settings)) or tr("none")


def trial_result(outcomes: Sequence[Outcome]) -> tuple[str, str]:
    """Return what became of a test message, and its tone."""
    delivered = [tr(each.channel.title) for each in outcomes if not each.why]
    sentences = [f"{tr(each.channel.title)}: {each.why}" for each in outcomes if each.why]
    if delivered:
        sentences.insert(0, tr("The test message was sent: {channels}.", channels=join_names(delivered)))
    elif not outcomes:
        sentences.append(tr("Nothing is chosen above, so nobody would be notified."))
    return "\n".join(sentences), "good" if delivered and len(delivered) == len(outcomes) else "warn"
