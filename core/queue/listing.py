"""The queued runs of a user, with place and reason, and the devices that are set aside."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from core.devices.device import Device
from core.devices.names import join_labels, list_labels
from core.errors import RunError
from core.history.index import directories
from core.language import Message, join_sentences, tr, tr_noop, tr_plural
from core.queue import decision as reasons
from core.queue.decision import AFTER, GRANTED, HELD, HOLDING, Decision, Outcome, Ticket, decide, printable, shown_name
from core.queue.folder import facts_of, own_line
from core.queue.line import Line, last_state
from core.queue.request import QueueRequest, read_request
from core.runs.facts import RunState
from core.runs.owners import owner_of_run
from core.schema.files import is_regular, parse_json
from core.schema.paths import EVENTS, QUEUE_FILE, SPEC_FILE, SUPERVISOR_EVENTS
from core.schema.spec import read_spec
from core.system import processes, procfs
from core.system.processes import user_name
from core.text import as_sentence, join_names

QUEUED, IS_HELD = "queued", "held"
STATE_WORDS = {QUEUED: tr_noop("queued"), IS_HELD: tr_noop("held")}
MAX_LABELS = 64
"""Devices of a run that are all named if their names are no row."""
MAX_REFUSED = 5
"""Tickets that are named as passed over: a user may have planted hundreds."""
REFUSED = {
    "owner": tr_noop("{path} belongs to another user than its folder, and is passed over."),
    "kind": tr_noop("{path} is not a regular file, and is passed over."),
    "size": tr_noop("{path} is larger than a ticket may be, and is passed over."),
    "content": tr_noop("{path} is not a valid ticket, and is passed over."),
    "many": tr_noop("{path} is passed over, since its user has too many or too large tickets."),
    "name": tr_noop("{path} is passed over, since its name is not that of the user who made it."),
    "second": tr_noop("{path} is passed over, since its user has another folder there."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRun:
    """One queued run of this user."""

    run_dir: Path
    request: QueueRequest
    place: int
    """Its place among the user's own queued runs, from 1."""
    state: str
    """`queued` or `held`."""
    needs: str
    reason: str
    """Sentences in the language in use."""
    expected_start: float | None
    """Unix seconds, if that is known."""
    waits: bool
    """Whether a process waits for its devices."""
    line_place: int | None = None
    """Its place in the line of all users, from 1; None while no process waits for its devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRun:
    """A queued run of another user, as its ticket shows it."""

    user: str
    run: str
    """The name of its folder, which cannot be relied on."""
    line_place: int
    state: str
    needs: str
    reason: str
    expected_start: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """The queue as it is now."""

    runs: tuple[QueuedRun, ...] = ()
    """In the order of the line; those for which no process waits any more come last."""
    others: tuple[OtherRun, ...] = ()
    """The queued runs of other users, in the order of the line."""
    set_aside: Mapping[str, str] = field(default_factory=dict)
    """By device id, a sentence for whom a free device is kept."""
    claimed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By device id, the names of the runs in other folders or of other users that hold it, by what tells them apart."""
    ends: Mapping[str, float] = field(default_factory=dict)
    """By name of the folder, unix seconds at which live runs of this user are expected to end."""
    held: str = ""
    """Why all queued runs of this user are held, in sentences; empty if they are not."""
    troubles: tuple[str, ...] = ()
    """Sentences: other users are not seen, or a ticket or folder is passed over."""
    apart: str = ""
    """Why it is not the line of all users, in sentences; empty if it is. Also the first of `troubles`."""


def queue_view(runs_root: Path, queued: Sequence[Path] | None = None) -> QueueView:
    """Return the queue. Raises `RunError` if runs cannot be listed, or if there is no place for the line.

    `queued`: the folders of the runs that may be queued, if they are known: others are not looked for.
    """
    return _view([*_queued_among(reversed(directories(runs_root)) if queued is None else queued)], runs_root)


def why_it_waits(run_dir: Path) -> str:
    """Return why a queued run waits, in sentences. Raises `RunError` or `ValueError`."""
    request = read_request(run_dir)
    return "" if request is None else _view([(run_dir, request)], run_dir.parent).runs[0].reason


def _view(found: list[tuple[Path, QueueRequest]], runs_root: Path) -> QueueView:
    own = own_line()
    now = time.time()
    tickets = own.line.tickets()
    held = own.line.held_users()
    _take_over(tickets, found)
    decision = decide(tickets, now, use=own.line.use(now), held=held)
    holding = {ticket.key for ticket in tickets if ticket.state == HOLDING}
    used = {device for ticket in tickets if ticket.state == HOLDING for device in ticket.devices}
    why_held = held_words(held.get(os.getuid(), ""))
    runs = [_described(run_dir, request, decision, now, holding=holding, held=why_held) for run_dir, request in found]
    places = {ticket.run: place for place, ticket in enumerate(decision.order, 1) if ticket.uid == os.getuid()}

    left = {each.run_dir for each in runs if not each.waits and each.reason != tr(JOINS)}
    runs.sort(key=lambda each: (each.run_dir in left, -each.request.priority, each.request.order, each.run_dir.name))
    return QueueView(
        runs=tuple(
            replace(each, place=place, line_place=places.get(each.run_dir.name)) for place, each in enumerate(runs, 1)
        ),
        others=tuple(
            _described_other(ticket, place, decision.outcomes[ticket.key], now)
            for place, ticket in enumerate(decision.order, 1)
            if ticket.uid != os.getuid()
        ),
        set_aside={
            device: tr("Kept for {run}.", run=run_words(ticket))
            for device, ticket in decision.kept.items()
            if device not in used
        },
        claimed=_claimed(tickets, runs_root),
        ends={each.run: each.ends_at for each in tickets if each.uid == os.getuid() and each.ends_at is not None},
        held=why_held,
        troubles=(*([own.apart] if own.apart else []), *_refused(own.line)),
        apart=own.apart,
    )


def _claimed(tickets: Iterable[Ticket], runs_root: Path) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for each in (each for each in tickets if each.state == HOLDING):
        is_own = each.uid == os.getuid()
        if is_own and is_regular(runs_root / each.run / SPEC_FILE):
            continue
        name = f"{each.name} ({tr('another folder') if is_own else user_name(each.uid)})"
        for device in each.devices:
            found.setdefault(device, {})[f"{each.uid}/{each.run}"] = name
    return found


def _take_over(tickets: list[Ticket], found: list[tuple[Path, QueueRequest]]) -> None:
    """Let the user's own tickets say what was asked of them just now: their processes read it once a second."""
    requests = {run_dir.name: request for run_dir, request in found}
    for ticket in tickets:
        request = requests.get(ticket.run)
        if request is not None and ticket.uid == os.getuid():
            ticket.priority, ticket.order, ticket.held = request.priority, request.order, request.held


def _queued_among(run_dirs: Iterable[Path]) -> Iterator[tuple[Path, QueueRequest]]:
    for run_dir in run_dirs:
        if not is_regular(run_dir / QUEUE_FILE) or not is_queued(run_dir) or owner_of_run(run_dir) is not None:
            continue
        try:
            request = read_request(run_dir)
        except ValueError as error:  # its waiting process still knows what was asked; it fails when its turn comes
            request = QueueRequest(held=True, why_held=str(error))
        if request is not None:
            yield run_dir, request


def claim_sentences(devices: Iterable[Device], runs_root: Path) -> list[str]:
    """Return which devices other runs have claimed, or are set aside for, that are not below a root.

    For a run that is about to start beside them. Empty where there is no line.
    """
    try:
        view = queue_view(runs_root, ())
    except RunError:
        return []
    found = []
    for each in devices:
        if runs := view.claimed.get(each.id):
            found.append(tr("{device} is claimed by {runs}.", device=each.label, runs=join_names([*runs.values()])))
        elif words := view.set_aside.get(each.id):
            found.append(tr("{device}: {words}", device=each.label, words=words))
    return found


def is_queued(run_dir: Path) -> bool:
    """Return whether a run is queued, from the end of its events."""
    return last_state(str(run_dir / EVENTS / SUPERVISOR_EVENTS)) == RunState.QUEUED.value


def _described_other(ticket: Ticket, place: int, outcome: Outcome, now: float) -> OtherRun:
    is_held = outcome.reason == HELD
    return OtherRun(
        user=user_name(ticket.uid), run=shown_name(ticket.run), line_place=place,
        state=IS_HELD if is_held else QUEUED, needs=needs_words(ticket), expected_start=outcome.expected,
        reason=tr("Its user holds it.") if is_held else reason_words(ticket, outcome, now),
    )


def _described(
    run_dir: Path, request: QueueRequest, decision: Decision, now: float, *, holding: set[tuple[int, str]],
    held: str,
) -> QueuedRun:
    """Return a queued run. `holding`: the tickets of runs that have their devices. `held`: why the queue is held."""
    key = (os.getuid(), run_dir.name)
    ticket = next((each for each in decision.order if each.key == key), None)
    outcome = decision.outcomes.get(key) or Outcome(GRANTED)
    waits = ticket is not None or key in holding  # its devices are claimed, and its supervisor is about to start
    if ticket is None:
        try:
            fields = request.ticket(read_spec(run_dir))
        except ValueError:  # such as the spec of a newer version
            fields = {"state": "waiting", "devices": ["?"]}
        ticket = Ticket(os.getuid(), run_dir.name, {**fields, "after": ""})
    reason = reason_words(ticket, outcome, now, held=request.why_held if request.held else held)
    if not waits:
        reason = _why_no_process_waits(run_dir, now)
    elif outcome.reason == AFTER and _follows_itself(run_dir, request):
        reason = tr(IN_A_CIRCLE, run=run_dir.name)
    elif outcome.reason == GRANTED and (pid := _stopped_waiter(run_dir)) is not None:
        reason = tr(IS_STOPPED, pid=pid)
    return QueuedRun(
        run_dir=run_dir, request=request, place=0, needs=needs_words(ticket), waits=waits,
        state=IS_HELD if request.held or outcome.reason == HELD else QUEUED,
        reason=reason, expected_start=outcome.expected if waits else None,
    )


def _why_no_process_waits(run_dir: Path, now: float) -> str:
    """Return why a queued run has no ticket: the process that is to wait for it is being started, or has ended."""
    facts = facts_of(run_dir)
    is_new = bool(facts.history) and now - facts.history[-1][0] < JOINS_S
    joins = is_new if facts.waiter is None else processes.is_alive(facts.waiter)
    return tr(JOINS) if joins else tr(NO_PROCESS_WAITS)


def _stopped_waiter(run_dir: Path) -> int | None:
    """Return the id of the process that waits for a run if it is stopped, as by SIGSTOP."""
    waiter = facts_of(run_dir).waiter
    stat = procfs.stat(waiter.pid) if waiter is not None and processes.is_alive(waiter) else None
    return waiter.pid if waiter is not None and stat is not None and stat.state in procfs.STOPPED else None


def _follows_itself(run_dir: Path, request: QueueRequest | None) -> bool:
    """Return whether a run waits for one that waits for it, as after a change of their files by hand."""
    seen = {run_dir}
    while request is not None and request.after:
        other = Path(request.after)
        if other in seen:
            return True
        seen.add(other)
        try:
            request = read_request(other) if is_queued(other) else None
        except ValueError:
            return False
    return False


def _refused(line: Line) -> Iterator[str]:
    passed = [(path, why) for path, why in line.passed.items() if path != line.parent]
    refused = [*line.refused.items(), *passed]
    for path, why in refused[:MAX_REFUSED]:
        yield tr(REFUSED[why], path=printable(path))
    if (more := len(refused) - MAX_REFUSED) > 0:
        yield tr_plural(
            "{count} more ticket or folder is passed over.", "{count} more tickets or folders are passed over.", more
        )


HELD_BY_USER = tr_noop("It is held. Let it go on with: trainyard queue release {run}")
NO_PROCESS_WAITS = tr_noop(
    "The process that waited for its devices has ended, as at a reboot. Let it wait again with: trainyard queue revive"
)
JOINS, JOINS_S = tr_noop("It is joining the queue."), 10.0
"""What is said of a run for whose process there is no ticket yet, and for how many seconds at most."""
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
    """Return the names of devices as its user knows them; only some of very many, which another user may have named."""
    labels = [ticket.labels.get(each, each) for each in devices]
    return join_labels(labels) if len(labels) <= MAX_LABELS else list_labels(labels)


def reason_words(ticket: Ticket, outcome: Outcome, now: float, *, held: str = "") -> str:
    """Return why a run waits, in sentences. `held`: why it or the whole queue is held, if that is known."""
    match outcome.reason:
        case reasons.GRANTED:
            text = tr(ABOUT_TO_START)
        case reasons.HELD:
            text = tr(held) or tr(HELD_BY_USER, run=ticket.run)
        case reasons.AFTER:
            text = tr("It waits for the end of run {run}.", run=ticket.after)
        case reasons.NOT_BEFORE:
            text = tr("It starts at {time} at the earliest.", time=clock(outcome.until or now, now))
        case reasons.BLOCKED:
            text = join_sentences(dict.fromkeys(_why(ticket.blocked[each][2]) for each in outcome.devices))
        case reasons.KEPT | reasons.USED if outcome.other is not None:
            text = _of_other(ticket, outcome, outcome.other, now)
        case _:
            text = tr("There are not enough devices for it: it needs {needs}.", needs=needs_words(ticket))
    return text


def _why(data: str) -> str:
    """Return a message of a ticket. It may be of any user, or have the name of a process, which any program chooses."""
    try:
        found = tr(Message.read(parse_json(data.encode())))
    except ValueError:
        return ""
    return found if found.isprintable() else printable(found)


def held_words(written: str) -> str:
    """Return why a queue is held, as `core.queue.folder.hold` has written it; nothing for the empty string."""
    try:
        return tr(Message.read(parse_json(written.encode())))
    except ValueError:
        return written


def _of_other(ticket: Ticket, outcome: Outcome, other: Ticket, now: float) -> str:
    devices = label_words(ticket, outcome.devices)
    about = "" if outcome.until is None or outcome.until <= now else duration_words(outcome.until - now)
    if outcome.reason == reasons.USED:
        text = tr_plural("{devices} is used by {run}", "{devices} are used by {run}", len(outcome.devices),
                         devices=devices, run=run_words(other))
    else:
        text = tr_plural("{devices} is free, kept for {run}, which needs {needed}",
                         "{devices} are free, kept for {run}, which needs {needed}", len(outcome.devices),
                         devices=devices, run=run_words(other), needed=other.count)
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
