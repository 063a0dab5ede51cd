"""What a part reports, as the run records it: with the names that devices have in the run, by the clock here."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from core.devices.device import full_name
from core.language import MAX_TEXT, Message, stored, tr
from core.schema import event_kinds as kinds
from core.schema.events import Writer
from core.schema.files import open_to_append
from core.schema.paths import EVENTS, host_events, worker_events

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from core.schema.events import Event

IN_COLUMNS = (kinds.Metrics, kinds.DeviceReading)


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
        source = kinds.OF_WORKERS if name in own else kinds.OF_HOST
        writer = self._writer(own.get(name, host_events(self._host)))
        for event in events:
            found = translate(event, source, self._host, self.offset_s)
            if found is None or (name in own and found.get("rank", 0) not in {0, *ranks}):
                continue
            if found["kind"] == kinds.Release.kind:
                self.released.add(found["device"])
            writer.write_json(json.dumps(found))

    def add_log(self, name: str, data: bytes) -> None:
        """Append what a log of the part has got to the run's log of that name."""
        if data:
            with os.fdopen(open_to_append(self._run_dir / name), "ab") as log:
                log.write(data)

    def add_notice(self, text: str) -> None:
        """Record a sentence about the machine."""
        self._writer(host_events(self._host)).write(kinds.Notice(text=text))

    def close(self) -> None:
        """Close the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _writer(self, name: str) -> Writer:
        if name not in self._writers:
            self._writers[name] = Writer(self._run_dir / EVENTS / name)
        return self._writers[name]


def translate(event: Event, source: kinds.Forwarded, host: str, offset_s: float) -> Event | None:
    """Return an event of a part as an event of the run; None if it does not concern the run.

    `source`: whose file of the part has it. `host`: the name of the machine here. `offset_s`: seconds by which its
    clock is ahead. Nothing is trusted: an event that makes no sense is left out.
    """
    kind = kinds.KINDS.get(event["kind"])
    if kind is None or source not in kind.forwarded:
        return None
    found = dict(event)
    try:
        if kind not in IN_COLUMNS:  # which were checked when the line was read
            kinds.read(event)
        for name, foreign in _foreign_fields(kind).items():  # type: ignore[arg-type]  # a class is hashable
            if foreign is kinds.Foreign.MACHINE or found.get(name) is not None:
                found[name] = _translated(foreign, found.get(name), host, offset_s)
    except (TypeError, ValueError):
        return None
    return found


def _translated(foreign: kinds.Foreign, value: Any, host: str, offset_s: float) -> object:  # noqa: ANN401 (JSON)
    match foreign:
        case kinds.Foreign.TIME:
            return value - offset_s
        case kinds.Foreign.DEVICE:
            return [full_name(host, each) for each in value] if isinstance(value, list) else full_name(host, value)
        case kinds.Foreign.MACHINE:
            return host
        case kinds.Foreign.SENTENCE:
            return stored(tr("{name}: {reason}", name=host, reason=Message.read(value).within(MAX_TEXT)))


@cache
def _foreign_fields(kind: type[kinds.Record]) -> dict[str, kinds.Foreign]:
    """Return the fields to translate, by their names in a file."""
    hints = get_type_hints(kind, include_extras=True)
    found = {each.metadata.get("key", each.name): _mark(hints[each.name]) for each in fields(kind)}
    return {name: mark for name, mark in found.items() if mark is not None}


def _mark(hint: object) -> kinds.Foreign | None:
    """Return what an annotation such as `DeviceId`, `DeviceId | None` or `tuple[DeviceId, ...]` says of its values."""
    marks = [*getattr(hint, "__metadata__", ()), *map(_mark, get_args(hint))]
    return next((mark for mark in marks if isinstance(mark, kinds.Foreign)), None)


def worker_exits(events: list[Event], ranks: Mapping[int, object]) -> dict[int, tuple[int, bool]]:
    """Return the exit codes of these ranks and whether they were signalled, as a part's supervisor has recorded it."""
    return {
        each.rank: (each.exit_code, each.signalled)
        for each in kinds.read_all(kinds.WorkerExit, events)
        if each.rank in ranks
    }
