"""The command `notify`: show, change and try the notifications about runs and alarms."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from typing import Any

from core.cli.output import say, say_json, say_table, warn
from core.language import tr
from core.notifications.channels import OCCASIONS, Channel, bus_address
from core.notifications.delivery import deliver
from core.notifications.message import trial_message
from core.notifications.settings import CHANNELS, NotificationSettings, load, save, settings_file
from core.text import join_phrases


def add_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "what", choices=("show", "test", "set"),
        help=tr("show the settings, send a test message, or change settings with the options"),
    )
    for each in CHANNELS:
        default, what = getattr(NotificationSettings(), each.name), tr(each.help)
        if isinstance(default, bool):
            add(f"--{each.name}", dest=_dest(each), choices=("on", "off"), help=what)
        elif isinstance(default, tuple):
            what = tr("{what}; - reads it from standard input. Can be given several times", what=what)
            add(f"--{each.name}", dest=_dest(each), action="append", metavar="URL", help=what)
        elif each.is_address:
            what = tr("{what}; - reads it from standard input", what=what)
            add(f"--{each.name}", dest=_dest(each), metavar="URL", help=what)
        else:
            add(f"--{each.name}", dest=_dest(each), metavar="LINE", help=what)
    add(
        "--when", metavar="LIST",
        help=tr("on which occasions: a list with commas of {known}", known=", ".join(OCCASIONS)),
    )
    add(
        "--min-duration", type=float, metavar="SECONDS",
        help=tr("say nothing of the end of runs that took less time than this"),
    )


def notify(options: Namespace) -> int:
    """Show, change or test the notifications about the ends of runs, and about alarms."""
    names = [*map(_dest, CHANNELS), "when", "min_duration"]
    given = any(getattr(options, name) is not None for name in names)
    if given and options.what != "set":
        raise ValueError(tr("Settings are changed with: trainyard notify set"))
    loaded = load()
    if loaded.problem:
        warn(loaded.problem)
    if options.what == "test":
        return _test(options, loaded.settings)
    settings = loaded.settings
    if options.what == "set":
        if not given:
            raise ValueError(tr("Nothing was changed. Name a setting: trainyard notify set --help"))
        settings = _changed(options, settings)
        save(settings)
    _show(options, settings)
    return 0


def _changed(options: Namespace, settings: NotificationSettings) -> NotificationSettings:
    """Return the settings with those that were given. Raises `ValueError` with a sentence."""
    changes: dict[str, Any] = {}
    for each in CHANNELS:
        given = getattr(options, _dest(each))
        if isinstance(given, list):
            changes[each.name] = tuple(filter(None, map(_address, given)))
        elif given is not None and isinstance(getattr(settings, each.name), bool):
            changes[each.name] = given == "on"
        elif given is not None:
            changes[each.name] = _address(given) if each.is_address else given
    if options.when is not None:
        changes["occasions"] = tuple(filter(None, (each.strip() for each in options.when.split(","))))
    if options.min_duration is not None:
        changes["min_duration_s"] = options.min_duration
    return replace(settings, **changes)


def _dest(channel: Channel) -> str:
    return f"channel_{channel.name}"


def _address(given: str) -> str:
    """Return an address, from standard input if asked to: other users can see the arguments of a command."""
    return sys.stdin.readline().strip() if given == "-" else given.strip()


def _show(options: Namespace, settings: NotificationSettings) -> None:
    if options.json:
        shown: dict[str, Any] = {each.name: each.shown(getattr(settings, each.name)) or None for each in CHANNELS}
        shown["desktop"] = settings.desktop
        say_json({
            **shown, "when": list(settings.occasions), "min_duration_s": settings.min_duration_s,
            "file": str(settings_file()),
        })
        return
    rows = [[tr(each.title), each.shown(getattr(settings, each.name)) or "-"] for each in CHANNELS]
    if settings.desktop and not bus_address():
        rows[0][1] = tr("on; there is no desktop here")
    when = join_phrases(tr(OCCASIONS[each].title) for each in settings.occasions) or "-"
    rows += [
        [tr("When"), when],
        [tr("Shortest run"), tr("{seconds:g} s", seconds=settings.min_duration_s)],
        [tr("File"), str(settings_file())],
    ]
    say_table(rows)


def _test(options: Namespace, settings: NotificationSettings) -> int:
    outcomes = deliver(settings, trial_message())
    if options.json:
        say_json([{"channel": each.channel.name, "delivered": not each.why, "reason": each.why} for each in outcomes])
    for each in () if options.json else outcomes:
        title = tr(each.channel.title)
        if not each.why:
            say(tr("{channel}: delivered", channel=title))
            continue
        warn(f"{title}: {each.why}")
        if each.detail:
            warn("\n".join(each.detail.splitlines()))
    if all(each.is_absent for each in outcomes):
        warn(tr("No channel that works here is set, so no notification would be sent. Set one, for instance: "
                "trainyard notify set --ntfy https://ntfy.sh/TOPIC"))
        return 1
    return 1 if any(each.why and not each.is_absent for each in outcomes) else 0
