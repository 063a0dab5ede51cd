"""What is sent where. The file is private: addresses of services are secrets in most cases."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from core.language import tr, tr_noop
from core.notifications.channels import (
    OCCASIONS,
    Channel,
    apprise_problem,
    ntfy_problem,
    post_to_ntfy,
    post_to_webhook,
    run_command,
    send_by_apprise,
    show_on_desktop,
    web_problem,
)
from core.schema.files import make_private, parse_json, read_whole
from core.system.folders import config_folder, save_in_config_folder

FILE = "notifications.json"
VERSION = 2
MAX_BYTES = 256 * 1024
MAX_CHARACTERS = 4096
"""Longest command or address."""
MAX_ADDRESSES = 20


def _channel(row: Channel, default: object = "") -> Any:  # noqa: ANN401 (the field has the type of its value)
    return field(default=default, repr=not row.is_address, metadata={"channel": row})


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSettings:
    """The settings of all channels, and when they are used. Raises `ValueError` with a sentence for a wrong value."""

    desktop: bool = _channel(
        Channel(
            title=tr_noop("Desktop"),
            help=tr_noop("show a notification where there is a desktop"),
            not_delivered=tr_noop("The notification could not be shown on the desktop. {why}"),
            send=lambda _, message, timeout_s: show_on_desktop(message, timeout_s),
            is_address=False,
        ),
        default=True,
    )
    command: str = _channel(
        Channel(
            title=tr_noop("Command"),
            help=tr_noop("a line for the shell; NOTIFICATION_TITLE and NOTIFICATION_TEXT have the message"),
            not_delivered=tr_noop("The notification could not be sent by your command. {why}"),
            send=run_command,
            example='mail -s "$NOTIFICATION_TITLE" me@example.org',
            is_address=False,
        ),
    )
    webhook: str = _channel(
        Channel(
            title=tr_noop("Webhook"),
            help=tr_noop("the message is posted to this address as JSON"),
            not_delivered=tr_noop("The notification could not be sent to your webhook. {why}"),
            send=post_to_webhook,
            check=web_problem,
            example="https://hooks.example.org/…",
        ),
    )
    ntfy: str = _channel(
        Channel(
            title="ntfy",
            help=tr_noop("the address of a topic of ntfy, on its public server or your own"),
            not_delivered=tr_noop("The notification could not be sent to ntfy. {why}"),
            send=post_to_ntfy,
            check=ntfy_problem,
            example="https://ntfy.sh/TOPIC",
        ),
    )
    apprise: tuple[str, ...] = _channel(
        Channel(
            title="Apprise",
            help=tr_noop("addresses of services that Apprise knows; Apprise must be installed"),
            not_delivered=tr_noop("The notification could not be sent through Apprise. {why}"),
            send=lambda addresses, message, _: send_by_apprise(addresses, message),
            check=apprise_problem,
            example="mailto://… tgram://…",
        ),
        default=(),
    )
    occasions: tuple[str, ...] = tuple(OCCASIONS)
    min_duration_s: float = 10.0
    """Runs that took less time are not notified, since their user is probably still there. Time in the queue counts."""

    def __post_init__(self) -> None:
        problems = (
            *(_type_problem(each.name, getattr(self, each.name), each.default) for each in fields(self)[:-1]),
            _occasions_problem(self.occasions),
            _seconds_problem(self.min_duration_s),
        )
        if problem := next(filter(None, problems), ""):
            raise ValueError(problem)
        for each in CHANNELS:
            value = getattr(self, each.name)
            texts = value if isinstance(value, tuple) else (value,) if isinstance(value, str) and value else ()
            if problem := next(filter(None, map(each.check, texts)), ""):
                raise ValueError(problem)


CHANNELS = tuple(
    replace(each.metadata["channel"], name=each.name) for each in fields(NotificationSettings) if each.metadata
)
"""All ways to reach a user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The settings as far as the file could be used."""

    settings: NotificationSettings = field(default_factory=NotificationSettings)
    problem: str = ""
    """What is wrong with the file: a sentence, or the empty string."""


def settings_file() -> Path:
    return config_folder() / FILE


def load() -> Loaded:
    """Read the settings. Values that cannot be used have their defaults, and are named in the problem."""
    path = settings_file()
    make_private(path)
    try:
        found = parse_json(read_whole(path, MAX_BYTES, follow_link=True))
    except FileNotFoundError:
        return Loaded()
    except OSError as error:
        why = error.strerror or str(error)
        return Loaded(problem=tr("The notification settings in {path} cannot be read: {why}.", path=path, why=why))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return Loaded(problem=tr("The notification settings in {path} are damaged. Delete the file, then set them "
                                 "again.", path=path))
    return _read(found)


def save(settings: NotificationSettings) -> None:
    """Write the settings, which only this user can read. Raises `RunError` with a sentence."""
    document = {"version": VERSION, **_unknown_values(), **asdict(settings)}
    save_in_config_folder(FILE, json.dumps(document, indent=1) + "\n")


def _unknown_values() -> dict[str, Any]:
    """Return what a newer version has written, which is kept."""
    try:
        found = parse_json(read_whole(settings_file(), MAX_BYTES, follow_link=True))
    except (OSError, ValueError):
        return {}
    known = {each.name for each in fields(NotificationSettings)}
    return {name: value for name, value in found.items() if name not in known} if isinstance(found, dict) else {}


def _read(found: dict[str, Any]) -> Loaded:
    settings, wrong, version, known = NotificationSettings(), [], found.get("version", 1), found.get("occasions")
    if isinstance(known, list) and known and isinstance(version, int):
        known += [name for name, row in OCCASIONS.items() if row.since > version and name not in known]
    for name in (each.name for each in fields(NotificationSettings)):
        if name not in found:
            continue
        entered: dict[str, Any] = {name: tuple(found[name]) if isinstance(found[name], list) else found[name]}
        try:
            settings = replace(settings, **entered)
        except (ValueError, TypeError):
            wrong.append(name)
    if not wrong:
        return Loaded(settings=settings)
    problem = tr(
        "These notification settings in {path} make no sense, and have their defaults: {names}. Set them again.",
        path=settings_file(),
        names=", ".join(wrong),
    )
    return Loaded(settings=settings, problem=problem)


# -- checks of values ----------------------------------------------------------------------------


def _type_problem(name: str, value: object, default: object) -> str:
    if isinstance(default, bool):
        return "" if isinstance(value, bool) else tr("The setting {name} must be true or false.", name=name)
    if isinstance(default, tuple):
        if isinstance(value, tuple) and len(value) <= MAX_ADDRESSES and all(map(_is_text, value)):
            return ""
        return tr("The setting {name} must be a list of at most {count} texts.", name=name, count=MAX_ADDRESSES)
    if _is_text(value):
        return ""
    return tr("The setting {name} must be a text of at most {count} characters.", name=name, count=MAX_CHARACTERS)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_CHARACTERS and "\0" not in value


def _occasions_problem(value: tuple[str, ...]) -> str:
    wrong = [each for each in value if each not in OCCASIONS]
    if not wrong:
        return ""
    return tr("There is no occasion {name!r}. Choose from: {known}.", name=wrong[0], known=", ".join(OCCASIONS))


def _seconds_problem(value: object) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9:
        return ""
    return tr("The shortest duration must be a number of seconds, 0 or more.")
