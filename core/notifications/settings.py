"""What is sent where. The file is private: addresses of services are secrets in most cases. Check these addresses."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from core.language import tr, tr_noop
from core.runs.facts.states import RunState
from core.schema.files import make_private, parse_json, read_whole
from core.system.folders import config_folder, save_in_config_folder

if TYPE_CHECKING:
    from pathlib import Path


FILE = "notifications.json"
VERSION = 1
MAX_BYTES = 256 * 1024
MAX_CHARACTERS = 4096
"""Longest command or address."""
MAX_ADDRESSES = 20
NO_ADDRESSES = ("desktop", "occasions", "min_duration_s")
"""Settings that are no address and no command."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSettings:
    """Raises `ValueError` with a sentence for a value that cannot be."""

    desktop: bool = True
    """Whether to use the desktop's notifications, where there is a desktop."""
    command: str = ""
    """A line for the shell."""
    webhook: str = field(default="", repr=False)
    ntfy: str = field(default="", repr=False)
    """The address of a topic."""
    apprise: tuple[str, ...] = field(default=(), repr=False)
    """Addresses as the library Apprise defines them."""
    occasions: tuple[str, ...] = tuple(OCCASIONS)
    min_duration_s: float = 10.0
    """Runs that took less time are not notified, since their user is probably still there. Time in the queue counts."""

    def __post_init__(self) -> None:
        problems = (
            *(type_problem(name, getattr(self, name)) for name in ("desktop", "command", "webhook", "ntfy")),
            _list_problem("apprise", self.apprise),
            _list_problem("occasions", self.occasions) or _occasions_problem(self.occasions),
            _seconds_problem(self.min_duration_s),
        )
        if problem := next(filter(None, problems), ""):
            raise ValueError(problem)
        checks = [web_problem(self.webhook), ntfy_problem(self.ntfy), *map(apprise_problem, self.apprise)]
        if problem := next(filter(None, checks), ""):
            raise ValueError(problem)

    @property
    def has_addresses(self) -> bool:
        """Whether anything but the desktop is set."""
        return any(getattr(self, each.name) for each in fields(self) if each.name not in NO_ADDRESSES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The settings as far as the file could be used."""

    settings: NotificationSettings
    problem: str = ""
    """What is wrong with the file: a sentence, or the empty string."""


def settings_file() -> Path:
    """Return the path of the file, whether it exists or not."""
    return config_folder() / FILE


def load() -> Loaded:
    """Read the settings. Values that cannot be used have their defaults, and are named in the problem."""
    path = settings_file()
    make_private(path)
    try:
        found = parse_json(read_whole(path, MAX_BYTES, follow_link=True))
    except FileNotFoundError:
        return Loaded(settings=NotificationSettings())
    except OSError as error:
        why = error.strerror or str(error)
        problem = tr("The notification settings in {path} cannot be read: {why}.", path=path, why=why)
        return Loaded(settings=NotificationSettings(), problem=problem)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        problem = tr(
            "The notification settings in {path} are damaged. Delete the file, then set them again.", path=path
        )
        return Loaded(settings=NotificationSettings(), problem=problem)
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
    settings, wrong = NotificationSettings(), []
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


def type_problem(name: str, value: object) -> str:
    """Return why this cannot be the value of a setting; the empty string if it can."""
    if name == "desktop":
        return "" if isinstance(value, bool) else tr("The setting {name} must be true or false.", name=name)
    if not isinstance(value, str) or len(value) > MAX_CHARACTERS or "\0" in value:
        return tr("The setting {name} must be a text of at most {count} characters.", name=name, count=MAX_CHARACTERS)
    return ""


def _list_problem(name: str, value: object) -> str:
    if isinstance(value, tuple) and len(value) <= MAX_ADDRESSES and not any(type_problem(name, each) for each in value):
        return ""
    return tr("The setting {name} must be a list of at most {count} texts.", name=name, count=MAX_ADDRESSES)


def _occasions_problem(value: tuple[str, ...]) -> str:
    wrong = [each for each in value if each not in OCCASIONS]
    if not wrong:
        return ""
    return tr("There is no occasion {name!r}. Choose from: {known}.", name=wrong[0], known=", ".join(OCCASIONS))


def _seconds_problem(value: object) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9:
        return ""
    return tr("The shortest duration must be a number of seconds, 0 or more.")


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
