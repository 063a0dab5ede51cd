"""Decide which waiting run may take which devices: a pure function of the tickets of all runs.

Every waiting run decides for itself, from the same tickets, and so to the same result. The devices are then claimed one
by one; a claim that fails gives them all back. In order of the line, each run takes all devices that it needs or has
them set aside. A run may pass those before it if it needs none of their devices, or will have ended before they start.

Loaded by each waiting run: see `core.queue.line`.
"""

from __future__ import annotations

import heapq
import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

WAITING, HOLDING = "waiting", "holding"
STARTING_S = 3600.0
"""Seconds of use of a device that a run counts as soon as it has it, so that users take turns."""
BLOCKED_LONG_S = 300.0
"""Seconds for which a device is used by another program, or is gone, after which nothing is set aside for its run."""
MAX_NAME = 60
"""Characters of the name of a run that its ticket shows to other users."""
MAX_TEXT = 400
MAX_DEVICES = 1024
"""A machine with two processors may have 512 CPU devices, any of which a run may take."""

# Why a run waits.
GRANTED, HELD, NOT_BEFORE, AFTER, USED, KEPT, BLOCKED, TOO_FEW = (
    "granted", "held", "not_before", "after", "used", "kept", "blocked", "too_few",
)


class Ticket:
    """What a run says of itself. Only its user can be relied on."""

    __slots__ = (
        "after", "among", "any", "blocked", "devices", "ends_at", "held", "labels", "limit_s", "name", "not_before",
        "order", "priority", "run", "since", "state", "uid",
    )

    def __init__(self, uid: int, run: str, fields: Any) -> None:  # noqa: ANN401 (JSON of any user)
        """Raise `ValueError`, `TypeError` or `KeyError` for fields that make no ticket."""
        self.uid, self.run = uid, run
        self.state = _one_of(fields["state"], (WAITING, HOLDING))
        self.name = _text(fields.get("name", "")) or shown_name(run)
        self.devices = _texts(fields.get("devices", ()))
        """The devices that it needs exactly, or holds."""
        self.any = int(_number(fields.get("any", 0)))
        """How many of `among` it needs in place of `devices`; 0 for none."""
        self.among = _texts(fields.get("among", ()))
        self.labels = {_text(name): _text(label) for name, label in dict(fields.get("labels", {})).items()}
        self.priority = _number(fields.get("priority", 0))
        self.since = _number(fields.get("since", 0))
        """Unix seconds since which it waits, or holds its devices."""
        self.order = _number(fields.get("order", self.since))
        """Its place among runs of equal priority."""
        self.held = bool(fields.get("held", False))
        self.not_before = _optional(fields.get("not_before"))
        self.after = _text(fields.get("after", ""))
        """The run whose end it waits for."""
        self.limit_s = _optional(fields.get("limit_s"))
        """Seconds that it trains at most."""
        self.ends_at = _optional(fields.get("ends_at"))
        """Unix seconds at which it is expected to end."""
        self.blocked = {_text(name): _block(each) for name, each in dict(fields.get("blocked", {})).items()}
        """By device, since when and until when it counts as not free although nothing claims it, and why: a message as
        JSON, which is neither checked nor kept as objects here, since a process that waits is to stay small."""
        if self.state == WAITING and not 0 < self.count <= max(len(self.among), len(self.devices)):
            raise ValueError(self.any)

    @property
    def key(self) -> tuple[int, str]:
        """What tells it from all others."""
        return self.uid, self.run

    @property
    def count(self) -> int:
        """The number of devices that it needs."""
        return self.any or len(self.devices)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The devices of which it may get some."""
        return self.among if self.any else self.devices


class Outcome:
    """What was decided about one waiting run."""

    __slots__ = ("devices", "expected", "other", "reason", "until")

    def __init__(
        self, reason: str, devices: Sequence[str] = (), other: Ticket | None = None, until: float | None = None,
        expected: float | None = None,
    ) -> None:
        self.reason = reason
        self.devices = tuple(devices)
        """The devices that it may take now, that are set aside for it, or that the reason is about."""
        self.other = other
        """The run that uses the device, or that it is kept for."""
        self.until = until
        """Unix seconds at which the reason is expected to end."""
        self.expected = expected
        """Unix seconds at which it is expected to start."""


class Decision:
    """What was decided about all waiting runs."""

    def __init__(self) -> None:
        self.order: list[Ticket] = []
        """The waiting runs in the order of the line."""
        self.outcomes: dict[tuple[int, str], Outcome] = {}
        """By key of the ticket."""
        self.kept: dict[str, Ticket] = {}
        """By device, the run that it is set aside for."""


def decide(
    tickets: Iterable[Ticket], now: float, *, use: Mapping[int, float] | None = None, held: Iterable[int] = ()
) -> Decision:
    """Decide about all waiting runs. `use`: past use of devices by each user. `held`: users whose queue is held."""
    every, held_users = list(tickets), {*held}
    decision = Decision()
    decision.order = in_order(every, use or {}, now)
    plan = _Plan(every, now, decision.kept)
    for ticket in decision.order:
        if ticket.held or ticket.uid in held_users:
            outcome = Outcome(HELD)
        elif ticket.after:
            outcome = Outcome(AFTER)
        elif ticket.not_before is not None and ticket.not_before > now:
            outcome = Outcome(NOT_BEFORE, until=ticket.not_before, expected=ticket.not_before)
        else:
            outcome = plan.place(ticket)
        decision.outcomes[ticket.key] = outcome
    return decision


def in_order(tickets: Iterable[Ticket], use: Mapping[int, float], now: float) -> list[Ticket]:
    """Return the waiting tickets in the order of the line: users with less use of devices take their turn first."""
    used = dict(use)
    own: dict[int, list[Ticket]] = {}
    for ticket in tickets:
        if ticket.state == HOLDING:
            share = len(ticket.devices) * max(STARTING_S, now - ticket.since)
            used[ticket.uid] = used.get(ticket.uid, 0.0) + share
        else:
            own.setdefault(ticket.uid, []).append(ticket)
    for each in own.values():
        each.sort(key=lambda ticket: (-ticket.priority, ticket.order, ticket.run), reverse=True)
    turns = [(used.get(uid, 0.0), each[-1].order, uid) for uid, each in own.items()]
    heapq.heapify(turns)
    line = []
    while turns:
        share, _, uid = heapq.heappop(turns)
        ticket = own[uid].pop()
        line.append(ticket)
        if not (ticket.held or ticket.after):  # such a run takes no turn of its user
            share += ticket.count * STARTING_S
        if own[uid]:
            heapq.heappush(turns, (share, own[uid][-1].order, uid))
    return line


class _Plan:
    """Which devices are used, until when, and for whom the others are set aside, while the line is gone through."""

    def __init__(self, tickets: Iterable[Ticket], now: float, kept: dict[str, Ticket]) -> None:
        self._now, self._kept = now, kept
        self._users: dict[str, Ticket] = {}
        self._free_at: dict[str, float | None] = {}
        """By device, when it is expected to be free; None if that is not known."""
        self._starts: dict[tuple[int, str], float | None] = {}
        """By key of a ticket that devices are set aside for, when it is expected to start."""
        for ticket in tickets:
            if ticket.state == HOLDING:
                self._use(ticket, ticket.devices, ticket.ends_at)

    def _use(self, ticket: Ticket, devices: Iterable[str], until: float | None) -> None:
        for device in devices:
            known = self._free_at.get(device, self._now)
            self._users[device] = ticket
            self._free_at[device] = None if until is None or known is None else max(known, until, self._now)

    def place(self, ticket: Ticket) -> Outcome:
        """Give a run its devices, or set devices aside for it."""
        blocked = {device for device, (_, until, _) in ticket.blocked.items() if until > self._now}
        free = [each for each in ticket.wanted if each not in self._users and each not in blocked]
        own = [each for each in free if each not in self._kept]
        # Devices that are kept for others come last: they are taken only by a run that will have ended in time.
        usable = own + [each for each in free if each in self._kept and self._can_pass(ticket, each)]
        if len(usable) >= ticket.count:
            first = {*usable[: ticket.count]}
            taken = [each for each in ticket.wanted if each in first]
            self._use(ticket, taken, None if ticket.limit_s is None else self._now + ticket.limit_s)
            return Outcome(GRANTED, taken, expected=self._now)
        return self._wait(ticket, own, blocked)

    def _can_pass(self, ticket: Ticket, device: str) -> bool:
        starts = self._starts.get(self._kept[device].key)
        return ticket.limit_s is not None and starts is not None and self._now + ticket.limit_s <= starts

    def _wait(self, ticket: Ticket, own: Sequence[str], blocked: set[str]) -> Outcome:
        """Set devices aside for a run that has to wait; return why it waits."""
        present = [each for each in ticket.wanted if each not in blocked]
        outcome = self._reason(ticket, own, blocked)
        since = [ticket.blocked[each][0] for each in blocked]
        if len(present) < ticket.count and any(self._now - each > BLOCKED_LONG_S for each in since):
            return outcome  # it is unknown how long it will wait, so nothing is set aside
        outcome.expected = self._set_aside(ticket, own, blocked)
        return outcome

    def _set_aside(self, ticket: Ticket, own: Sequence[str], blocked: set[str]) -> float | None:
        """Set devices aside, and return when the run is expected to start, if that is known."""

        def soonest(device: str) -> tuple[bool, bool, float]:
            at = self._free_at.get(device, self._now)
            return device in self._kept, at is None, at or 0.0

        passed = {*own, *blocked}
        others = sorted((each for each in ticket.wanted if each not in passed), key=soonest)
        chosen = [*own, *others][: ticket.count] if ticket.any else list(ticket.wanted)
        times = [None if each in blocked else self._free_at.get(each, self._now) for each in chosen]
        known = [each for each in times if each is not None]
        starts = max(known) if len(known) == ticket.count else None
        self._starts[ticket.key] = starts
        ends = None if starts is None or ticket.limit_s is None else starts + ticket.limit_s
        for device in chosen:
            self._kept.setdefault(device, ticket)
            self._free_at[device] = ends
        return starts

    def _reason(self, ticket: Ticket, own: Sequence[str], blocked: set[str]) -> Outcome:
        """Return why a run waits: for a device that is kept for another, if only that is in its way; then for use."""
        kept = [each for each in ticket.wanted if each in self._kept and each not in self._users]
        used = [each for each in ticket.wanted if each in self._users and each not in blocked]
        foreign = [each for each in ticket.wanted if each in blocked]
        if len(ticket.wanted) < ticket.count:
            return Outcome(TOO_FEW)
        if kept and (not used or ticket.any):
            other = self._kept[kept[0]]
            devices = [each for each in kept if self._kept[each] is other]
            return Outcome(KEPT, devices, other, self._starts.get(other.key))
        if foreign and (not used or not ticket.any):
            return Outcome(BLOCKED, foreign)
        if used:
            other = self._users[used[0]]
            devices = [each for each in used if self._users[each] is other]
            return Outcome(USED, devices, other, self._free_at.get(used[0]))
        return Outcome(TOO_FEW, own)


def shown_name(name: str) -> str:
    """Return the name of a run as its ticket shows it: short, and without characters that control a terminal."""
    return printable(name)[:MAX_NAME]


def printable(text: str) -> str:
    """Return a text as a ticket may have it, such as one with the name of a process, which any program can choose."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT or not value.isprintable():
        raise ValueError(value)
    return value


def _texts(values: Any) -> tuple[str, ...]:  # noqa: ANN401 (JSON)
    if not isinstance(values, (list, tuple)) or len(values) > MAX_DEVICES:
        raise ValueError(values)
    return tuple(dict.fromkeys(_text(each) for each in values))


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e15:
        raise ValueError(value)
    return value


def _optional(value: object) -> float | None:
    return None if value is None else _number(value)


def _one_of(value: object, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError(value)
    return str(value)


def _block(value: Any) -> tuple[float, float, str]:  # noqa: ANN401 (JSON)
    since, until, why = value
    return _number(since), _number(until), json.dumps(why)
