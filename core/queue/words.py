"""Why a queued run waits, in words."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from core.language import Message, join_sentences, tr, tr_noop, tr_plural
from core.queue import decision
from core.queue.decision import printable
from core.schema.files import parse_json
from core.system.process_info import user_name
from core.text import as_sentence, join_labels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.queue.decision import Outcome, Ticket

HELD_BY_USER = tr_noop("It is held. Let it go on with: trainyard queue release {run}")
NO_PROCESS_WAITS = tr_noop(
    "The process that waited for its devices has ended, as at a reboot. Let it wait again with: trainyard queue revive"
)
IN_A_CIRCLE = tr_noop(
    "It waits for the end of a run that waits for its own end. Stop one of them, such as: trainyard stop {run}"
)
IS_STOPPED = tr_noop(
    "The process that waits for its devices (pid {pid}) is stopped, so other runs pass it. Continue it: "
    "kill -CONT {pid}"
)
ABOUT_TO_START = tr_noop("Its devices are free: it is about to start.")


def run_words(ticket: Ticket) -> str:
    """Return `run NAME`, with its user if that is another one."""
    if ticket.uid == os.getuid():
        return tr("run {name}", name=ticket.name)
    return tr("run {name} of {user}", name=ticket.name, user=user_name(ticket.uid))


def needs_words(ticket: Ticket) -> str:
    """Return which devices a run needs: `CPU 0 and CPU 1`, or `any 2 of GPU 0 to 3`."""
    labels = label_words(ticket, ticket.wanted)
    if not ticket.any:
        return labels
    return tr("any {count} of {devices}", count=ticket.any, devices=labels)


def label_words(ticket: Ticket, devices: Iterable[str]) -> str:
    """Return the names of devices as its user knows them."""
    return join_labels([ticket.labels.get(each, each) for each in devices])


def reason_words(ticket: Ticket, outcome: Outcome, now: float, *, held: str = "") -> str:
    """Return why a run waits, in sentences. `held`: why it or the whole queue is held, if that is known."""
    match outcome.reason:
        case decision.GRANTED:
            text = tr(ABOUT_TO_START)
        case decision.HELD:
            text = tr(held) or tr(HELD_BY_USER, run=ticket.run)
        case decision.AFTER:
            text = tr("It waits for the end of run {run}.", run=ticket.after)
        case decision.NOT_BEFORE:
            text = tr("It starts at {time} at the earliest.", time=clock(outcome.until or now, now))
        case decision.BLOCKED:
            text = join_sentences(dict.fromkeys(_why(ticket.blocked[each][2]) for each in outcome.devices))
        case decision.KEPT | decision.USED if outcome.other is not None:
            text = _of_other(ticket, outcome, outcome.other, now)
        case _:
            text = tr("There are not enough devices for it: it needs {needs}.", needs=needs_words(ticket))
    return text


def _why(data: object) -> str:
    """Return a message of a ticket. It may be of any user, or have the name of a process, which any program chooses."""
    try:
        found = tr(Message.read(data))
    except ValueError:
        return ""
    return found if found.isprintable() else printable(found)


def held_words(written: str) -> str:
    """Return why a queue is held, as `core.queue.failures.hold` has written it; nothing for the empty string."""
    try:
        return tr(Message.read(parse_json(written.encode())))
    except ValueError:
        return written


def _of_other(ticket: Ticket, outcome: Outcome, other: Ticket, now: float) -> str:
    devices = label_words(ticket, outcome.devices)
    about = "" if outcome.until is None or outcome.until <= now else duration_words(outcome.until - now)
    if outcome.reason == decision.USED:
        text = tr_plural(
            "{devices} is used by {run}",
            "{devices} are used by {run}",
            len(outcome.devices),
            devices=devices,
            run=run_words(other),
        )
    else:
        text = tr_plural(
            "{devices} is free, kept for {run}, which needs {needed}",
            "{devices} are free, kept for {run}, which needs {needed}",
            len(outcome.devices),
            devices=devices,
            run=run_words(other),
            needed=other.count,
        )
    return as_sentence(tr("{text}; {about}", text=text, about=about) if about else text)


def duration_words(seconds: float) -> str:
    """Return `about 40 min`."""
    minutes = max(1, round(seconds / 60))
    if minutes < 90:
        return tr("about {minutes} min", minutes=minutes)
    return tr("about {hours} h", hours=round(minutes / 60))


def clock(at: float, now: float) -> str:
    """Return a time as `22:00`, with the date if it is another day."""
    then, today = time.localtime(at), time.localtime(now)
    return time.strftime("%H:%M" if then[:3] == today[:3] else "%Y-%m-%d %H:%M", then)
