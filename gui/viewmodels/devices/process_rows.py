"""The rows of the table of processes: who is on the devices, whose they are, and who may be ended from here."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.system.own_processes import is_part
from core.units import BYTES_PER_MB
from gui.style.formatting import DASH, age, gigabytes, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from core.runs.leftovers import OrphanedProcess
    from core.system.process_info import ProcessInfo

COLUMNS = ("PID", "User", "Name", "Command", "Age", "Memory", "Device", "Run")
PID, USER, NAME, COMMAND, AGE, MEMORY, DEVICE, RUN = range(len(COLUMNS))
COMMAND_LENGTH = 400
"""Characters of a command line in a question; it may be megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEntry:
    """A process that is on devices, or that a run has left behind."""

    holder: ProcessInfo
    """As it was described; `memory_used_bytes` over all its devices, or resident where it is on none but the CPU."""
    devices: tuple[str, ...]
    """Ids; none where it is on none, or on some that is not known."""
    leftover: OrphanedProcess | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Of which runs processes may be."""

    looked_at: str | None
    """The id of the run that is looked at."""
    names: Mapping[str, str]
    """By id, of all runs that are known here."""
    living: frozenset[str]
    """Ids of those that are not over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRow:
    """One process, ready to be shown."""

    person: ProcessEntry
    texts: tuple[str, ...]
    """As `COLUMNS`."""
    of_this_run: bool
    why_not: str
    """Why it is not to be ended from here, in a sentence; no text where it may be."""

    @property
    def holder(self) -> ProcessInfo:
        """Who it is."""
        return self.person.holder

    @property
    def key(self) -> tuple[int, float | None]:
        """The process for good."""
        return self.holder.pid, self.holder.created


def process_rows(people: Sequence[ProcessEntry], labels: Mapping[str, str], runs: Runs) -> list[ProcessRow]:
    """A row for each process. `labels`: what people call the devices."""
    return [
        ProcessRow(
            person=person,
            texts=_texts(person, labels, runs),
            of_this_run=_is_of(person.holder, runs.looked_at),
            why_not=why_not_end(person, runs),
        )
        for person in people
    ]


def ordered(rows: Sequence[ProcessRow], column: int, *, falling: bool) -> list[ProcessRow]:
    """Sorted by a column; what is not known comes last, either way."""
    key = _KEYS[column]
    known = [row for row in rows if key(row) is not None]
    unknown = [row for row in rows if key(row) is None]
    return [*sorted(known, key=key, reverse=falling), *unknown]  # type: ignore[arg-type]  # one kind a column


def why_not_end(person: ProcessEntry, runs: Runs) -> str:
    """Why a process is not to be ended from here, in a sentence; no text where it may be."""
    holder = person.holder
    if holder.name is None or holder.created is None:
        return f"Process {holder.pid} is not known here: it is of another namespace of processes, or gone."
    if not holder.ours:
        return f"It belongs to {holder.user or 'another user'}, who alone can end it."
    if holder.pid == os.getpid() or is_part((holder.command or "").split()):
        return "It is a part of Trainyard."
    if holder.state == "Z":
        return "It has ended already; its parent has yet to notice."
    return "" if person.leftover is not None else _of_a_run(holder, runs)


def _of_a_run(holder: ProcessInfo, runs: Runs) -> str:
    if holder.run_id is None:
        return ""
    name = runs.names.get(holder.run_id, holder.run_id)
    if holder.run_id in runs.living:
        return f"It belongs to the run {name}, which goes on: stop that run instead."
    return f"It belongs to the run {name}, and it is not sure that this run is over."


def confirmation(row: ProcessRow) -> tuple[str, str]:
    """The question before it is ended, and what there is to know about it."""
    holder = row.holder
    question = f"End {holder.name} (pid {holder.pid})?"
    why = row.person.leftover.why if row.person.leftover else "It belongs to no run of Trainyard."
    holds = f" and holds {memory_words(holder.memory_used_bytes)}" if holder.memory_used_bytes else ""
    how = (
        "It is asked to end (SIGTERM) and, if it is there some seconds later, killed (SIGKILL). "
        "What it has not saved is lost."
    )
    command = one_line(holder.command or holder.name or "", COMMAND_LENGTH)
    lines = (command, f"{why} It has been there for {age(holder.age_s)}{holds}.", how)
    return question, "\n\n".join(lines)


def memory_words(value_bytes: float | None) -> str:
    """`9.1 GB`, `340 MB`."""
    if value_bytes is None:
        return DASH
    if value_bytes < 1000 * BYTES_PER_MB:
        return f"{value_bytes / BYTES_PER_MB:.0f} MB"
    return f"{gigabytes(value_bytes)} GB"


def _texts(person: ProcessEntry, labels: Mapping[str, str], runs: Runs) -> tuple[str, ...]:
    holder = person.holder
    return (
        str(holder.pid),
        holder.user or DASH,
        holder.name or DASH,
        _command(holder),
        age(holder.age_s),
        memory_words(holder.memory_used_bytes),
        ", ".join(labels.get(device, device) for device in person.devices) or DASH,
        _run_words(person, runs),
    )


def _command(holder: ProcessInfo) -> str:
    if holder.command:
        return " ".join(holder.command.split())
    return DASH if holder.name else "of another namespace, or gone"


def _run_words(person: ProcessEntry, runs: Runs) -> str:
    run_id = person.holder.run_id
    if run_id is None:
        return ""
    if run_id == runs.looked_at:
        return "this run" if person.leftover is None else "this run, left over"
    name = runs.names.get(run_id, run_id)
    return name if person.leftover is None else f"{name}, left over"


def _is_of(holder: ProcessInfo, run_id: str | None) -> bool:
    return run_id is not None and holder.run_id == run_id


_KEYS: tuple[Callable[[ProcessRow], object], ...] = (
    lambda row: row.holder.pid,
    lambda row: row.holder.user,
    lambda row: row.holder.name,
    lambda row: row.holder.command,
    lambda row: row.holder.age_s,
    lambda row: row.holder.memory_used_bytes,
    lambda row: row.texts[DEVICE] if row.person.devices else None,
    lambda row: row.texts[RUN] or None,
)
