"""The settings of notifications as a form has them, and what became of a test message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from core.language import join_sentences, tr
from core.notifications.delivery import Outcome
from core.notifications.settings import CHANNELS, NotificationSettings
from core.text import join_names


def shown_in_fields(settings: NotificationSettings) -> dict[str, Any]:
    """Return the values of the form's fields by the name of their setting. Addresses have spaces between them."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    for name, value in values.items():
        if isinstance(value, tuple) and name != "occasions":
            values[name] = " ".join(value)
    return {**values, "min_duration_s": round(settings.min_duration_s)}


def with_fields(settings: NotificationSettings, entered: Mapping[str, Any]) -> tuple[NotificationSettings, str]:
    """Return settings with each field that is valid, and why others are not: sentences, or the empty string."""
    problems, before = [], shown_in_fields(settings)
    for name, value in entered.items():
        if name == "min_duration_s" and value == before[name]:
            continue  # it may have been set more exactly
        settings, problem = _with(settings, {name: _typed(value, getattr(settings, name))})
        problems.append(problem)
    return settings, join_sentences(problems)


def _typed(value: object, earlier: object) -> object:
    """Return what was entered as a value of the same type as an earlier one."""
    if isinstance(value, str):
        return tuple(value.split()) if isinstance(earlier, tuple) else value.strip()
    return float(value) if isinstance(earlier, float) and isinstance(value, int) else value


def _with(settings: NotificationSettings, value: dict[str, Any]) -> tuple[NotificationSettings, str]:
    try:
        return replace(settings, **value), ""
    except ValueError as error:
        return settings, str(error)


def channels_in_use(settings: NotificationSettings) -> str:
    """Return the names of the channels that are set, for a line."""
    return join_names(tr(each.title) for each in CHANNELS if getattr(settings, each.name)) or tr("none")


def trial_result(outcomes: Sequence[Outcome]) -> tuple[str, str]:
    """Return what became of a test message, and its tone."""
    delivered = [tr(each.channel.title) for each in outcomes if not each.why]
    sentences = [f"{tr(each.channel.title)}: {each.why}" for each in outcomes if each.why]
    if delivered:
        sentences.insert(0, tr("The test message was sent: {channels}.", channels=join_names(delivered)))
    elif not outcomes:
        sentences.append(tr("Nothing is chosen above, so nobody would be notified."))
    return "\n".join(sentences), "good" if delivered and len(delivered) == len(outcomes) else "warn"
