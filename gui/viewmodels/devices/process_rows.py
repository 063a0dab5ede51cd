"""The rows of the table of processes, which of them may be ended here, and the sentences about leftovers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.history.leftovers import OrphanedProcess
from core.language import tr, tr_noop, tr_plural
from core.schema.event_kinds import ProcessInfo
from core.system.own_processes import is_trainyard
from core.text import first_names, join_names, one_line
from gui.style.formatting import DASH, age, memory_size

COMMAND_LENGTH, SHORT_COMMAND = 400, 90
"""Maximum characters of a command line in a question about one process, and about several."""
MAX_COMMAND = 2000
"""Maximum characters of a command line in the table: it may have megabytes, which Qt would lay out at every frame."""
MAX_NAMES, MAX_LINES, MAX_REASONS = 3, 8, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEntry:
    """A process on devices, or one that a run left behind."""

    info: ProcessInfo
    """`memory_used_bytes` is the sum over its devices, or resident memory for a process on CPU devices only."""
    devices: tuple[str, ...]
    """Device ids; empty if there are none or they are unknown."""
    leftover: OrphanedProcess | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRuns:
    """The runs that processes may belong to."""

    shown: str | None
    """Id of the shown run."""
    names: Mapping[str, str]
    """Names of all known runs by id."""
    living: frozenset[str]
    """Ids of active runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRow:
    """One process, ready to be shown."""

    entry: ProcessEntry
    devices: str
    """The names of its devices."""
    run: str
    """The run that it belongs to, in words; the empty string for none."""
    of_this_run: bool
    why_not: str
    """Why it cannot be ended here, as a sentence; the empty string if it can."""

    @property
    def info(self) -> ProcessInfo:
        """The process."""
        return self.entry.info

    @property
    def key(self) -> tuple[int, float | None]:
        """Pid and start time, which identify the process."""
        return self.info.pid, self.info.created


def process_rows(entries: Sequence[ProcessEntry], labels: Mapping[str, str], runs: KnownRuns) -> list[ProcessRow]:
    """Return a row for each process. `labels`: names of the devices by id."""
    return [
        ProcessRow(
            entry=entry,
            devices=tr(", ").join(labels.get(device, device) for device in entry.devices),
            run=_run_words(entry, runs),
            of_this_run=_belongs_to(entry.info, runs.shown),
            why_not=why_not_end(entry, runs),
        )
        for entry in entries
    ]


def why_not_end(entry: ProcessEntry, runs: KnownRuns) -> str:
    """Return why a process cannot be ended here, or the empty string."""
    info = entry.info
    if info.name is None or info.created is None:
        return tr("Process {pid} is unknown here: it runs in a container or has already ended.", pid=info.pid)
    if not info.ours:
        return tr("It belongs to {user}; only that user can end it.", user=info.user or tr("another user"))
    if info.pid == os.getpid() or is_trainyard((info.command or "").split()):
        return tr("It is part of Trainyard.")
    if info.state == "Z":
        return tr("It has already ended; its parent process has not noticed yet.")
    return "" if entry.leftover is not None else _why_not_run(info, runs)


def _why_not_run(info: ProcessInfo, runs: KnownRuns) -> str:
    if info.run_id is None:
        return ""
    name = runs.names.get(info.run_id, info.run_id)
    if info.run_id in runs.living:
        return tr("It belongs to the active run {name}: stop that run instead.", name=name)
    return tr("It belongs to the run {name}, which may still be active.", name=name)


def confirmation(row: ProcessRow) -> tuple[str, str]:
    """Return the question before ending a process, and details about it."""
    info = row.info
    question = tr("End {name} (pid {pid})?", name=info.name, pid=info.pid)
    why = row.entry.leftover.why if row.entry.leftover else tr("It does not belong to a run of Trainyard.")
    since = age(info.age_s)
    if info.memory_used_bytes:
        memory = memory_size(info.memory_used_bytes)
        running = tr("It has been running for {time} and uses {memory}.", time=since, memory=memory)
    else:
        running = tr("It has been running for {time}.", time=since)
    how = tr(
        "It is asked to end (SIGTERM) and killed some seconds later if it has not (SIGKILL). Its unsaved data are lost."
    )
    command = one_line(info.command or info.name or "", COMMAND_LENGTH)
    lines = (command, f"{why} {running}", how)
    return question, "\n\n".join(lines)


def command_words(info: ProcessInfo) -> str:
    """Return a command line as the table shows it, or why it is unknown."""
    if info.command:
        return one_line(info.command, MAX_COMMAND)
    return DASH if info.name else tr("in a container, or already ended")


def _run_words(entry: ProcessEntry, runs: KnownRuns) -> str:
    run_id = entry.info.run_id
    if run_id is None:
        return ""
    if run_id == runs.shown:
        return tr("this run") if entry.leftover is None else tr("this run (leftover)")
    name = runs.names.get(run_id, run_id)
    return name if entry.leftover is None else tr("{name} (leftover)", name=name)


def _belongs_to(info: ProcessInfo, run_id: str | None) -> bool:
    return run_id is not None and info.run_id == run_id


def leftovers_sentence(found: Sequence[OrphanedProcess], names: Mapping[str, str]) -> str:
    """Return `2 processes of the ended run X are still running: ...`; "" for none. `names`: of runs by id."""
    if not found:
        return ""
    runs = list(dict.fromkeys(each.run_id for each in found))
    processes = join_names(first_names([_named(each) for each in found], MAX_NAMES))
    if len(runs) == 1:
        return tr_plural(
            "{count} process of the ended run {name} is still running: {processes}. It may use memory of a device.",
            "{count} processes of the ended run {name} are still running: {processes}. "
            "They may use memory of a device.",
            len(found),
            name=names.get(runs[0], runs[0]),
            processes=processes,
        )
    return tr(
        "{count} processes of {runs} ended runs are still running: {processes}. They may use memory of a device.",
        count=len(found),
        runs=len(runs),
        processes=processes,
    )


def _named(process: OrphanedProcess) -> str:
    return tr("{name} (pid {pid})", name=process.name, pid=process.process.pid)


def leftovers_confirmation(found: Sequence[OrphanedProcess]) -> tuple[str, str]:
    """Return the question before ending leftover processes, and a list of them."""
    first = found[0]
    lines = [
        tr(
            "pid {pid}  {name}  ({age} old): {command}",
            pid=each.process.pid,
            name=each.name,
            age=age(each.age_s),
            command=one_line(each.command, SHORT_COMMAND),
        )
        for each in found
    ]
    reasons = first_names(
        list(dict.fromkeys(each.why for each in found)), MAX_REASONS, tr_noop("{count} more runs have ended too.")
    )
    if len(found) > 1:
        question = tr("End the leftover processes?")
        how = tr("They are asked to end (SIGTERM) and killed some seconds later (SIGKILL).")
    else:
        question = tr("End {name} (pid {pid})?", name=first.name, pid=first.process.pid)
        how = tr("It is asked to end (SIGTERM) and killed some seconds later (SIGKILL).")
    return question, "\n".join([*first_names(lines, MAX_LINES), "", *reasons, how])
