"""What a part reports, as the run records it: with the names that devices have in the run, by the clock here."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from core.devices.host_names import full_name
from core.runs.facts.run_facts import read_release
from core.schema.events import Writer
from core.schema.files import open_to_append
from core.schema.paths import EVENTS, host_events, worker_events

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from core.schema.events import Event

OF_WORKERS = frozenset({
    "seen", "phase", "plan", "ready", "metrics", "done", "parts", "checkpoint", "rewind", "notice", "error", "link",
})  # fmt: skip
"""Kinds of events that a worker writes."""
OF_HOST = frozenset({"worker", "worker_exit", "sample", "unticked_device", "slowed", "release", "ended", "notice"})
"""Kinds of events of a part's supervisor, guard and readings that concern the run."""
DEVICES = ("device", "reads_from")
"""Fields with the id of one device."""
TIMES = ("t", "since", "until")
MAX_TEXT = 20_000


class PartRecord:
    """The files of the run into which goes what a part on another machine reports."""

    def __init__(self, run_dir: Path, host: str) -> None:
        """`host`: the name of the machine."""
        self._run_dir, self._host = run_dir, host
        self._writers: dict[str, Writer] = {}
        self.offset_s = 0.0
        """Seconds by which the clock there is ahead."""
        self.released: set[str] = set()
        """Devices, by their ids in the run, on whose memory there is a finding."""

    def add_events(self, name: str, events: Sequence[Event], ranks: Sequence[int]) -> None:
        """Write what of a part's file of events concerns the run: a rank's into the file of the rank.

        `name`: of the file, from the part's folder on. `ranks`: those of the part.
        """
        own = {f"{EVENTS}/{worker_events(rank)}": worker_events(rank) for rank in ranks}
        kinds = OF_WORKERS if name in own else OF_HOST
        writer = self._writer(own.get(name, host_events(self._host)))
        for event in events:
            found = translate(event, kinds, self._host, self.offset_s)
            if found is None or (name in own and found.get("rank", 0) not in {0, *ranks}):
                continue
            if found["kind"] == "release":
                self.released.add(found["device"])
            writer.write_json(json.dumps(found))

    def add_log(self, name: str, data: bytes) -> None:
        """Append what a log of the part has got to the run's log of that name."""
        if data:
            with os.fdopen(open_to_append(self._run_dir / name), "ab") as log:
                log.write(data)

    def add_notice(self, text: str) -> None:
        """Record a sentence about the machine."""
        self._writer(host_events(self._host)).write("notice", text=text)

    def close(self) -> None:
        """Close the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _writer(self, name: str) -> Writer:
        if name not in self._writers:
            self._writers[name] = Writer(self._run_dir / EVENTS / name)
        return self._writers[name]


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
