"""Events of a part as the run records them: with the names that devices have in the run, by the clock here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.hosts.names import full_name
from core.runs.facts.verdicts import read_release

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.schema.events import Event

OF_WORKERS = frozenset({
    "seen", "phase", "plan", "ready", "metrics", "done", "parts", "checkpoint", "rewind", "notice", "error", "link",
})  # fmt: skip
"""Kinds of events that a worker writes."""
OF_HOST = frozenset({"worker", "worker_exit", "sample", "stray", "slowed", "release", "ended", "notice"})
"""Kinds of events of a part's supervisor, guard and readings that concern the run."""
DEVICES = ("device", "reads_from")
"""Fields with the id of one device."""
TIMES = ("t", "since", "until")
MAX_TEXT = 20_000


def translate(event: Event, kinds: frozenset[str], host: str, offset_s: float) -> Event | None:
    """Return an event of a part as an event of the run; None if it does not concern the run.

    `host`: the name of the machine here. `offset_s`: seconds by which its clock is ahead. Nothing is trusted: an event
    that makes no sense is left out.
    """
    if event["kind"] not in kinds:
        return None
    found: dict[str, Any] = dict(event)
    for name in TIMES:
        if isinstance(found.get(name), (int, float)):
            found[name] = found[name] - offset_s
    for name in DEVICES:
        if isinstance(found.get(name), str):
            found[name] = full_name(host, found[name])
    if isinstance(found.get("devices"), list):
        found["devices"] = [full_name(host, str(each)) for each in found["devices"]]
    try:
        return _of_kind(found, host)
    except (LookupError, TypeError, ValueError):
        return None


def _of_kind(event: dict[str, Any], host: str) -> dict[str, Any]:
    kind = event["kind"]
    if kind in {"worker", "ended"}:
        return {**event, "host": host}
    if kind == "release":
        read_release(event)  # raises for a damaged one
        return event
    if kind == "notice":
        return {**event, "text": f"{host}: {str(event['text'])[:MAX_TEXT]}"}
    return event


def worker_exits(events: list[Event], ranks: Mapping[int, object]) -> dict[int, tuple[int, bool]]:
    """Return the exit codes of these ranks and whether they were signalled, as a part's supervisor has recorded it."""
    exits: dict[int, tuple[int, bool]] = {}
    for event in events:
        rank, code = event.get("rank"), event.get("exit_code")
        if event["kind"] == "worker_exit" and isinstance(rank, int) and rank in ranks and isinstance(code, int):
            exits[rank] = code, event.get("signalled") is True
    return exits
