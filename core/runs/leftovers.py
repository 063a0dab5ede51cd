"""Leftovers: processes that carry the tag of a run that is over.

A run ends all that it started: its supervisor does, or its guard (`core.supervisor.guard`) when the supervisor was
killed. Something is left only where both were killed, or where a process could not be ended then. A tag is inherited
by whatever is started from inside a training, so not everybody who carries one is a leftover: see `_spared`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.runs.run import Run
from core.runs.states import state_info
from core.schema.paths import SUPERVISOR_EVENTS
from core.system import process_info, procfs
from core.system.own_processes import SUPERVISOR, is_panel
from core.system.processes import RUN_DIR, TAG, ProcessId
from core.system.procfs import PROC

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from core.system.procfs import Stat


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanedProcess:
    """A process of this user that a run which is over has left behind."""

    process: ProcessId
    run_id: str
    run_dir: Path | None
    """The run's folder; None when it is gone, or was not found."""
    name: str
    command: str
    age_s: float
    """Since it was started."""
    user: str
    memory_bytes: int | None
    """Resident; None when it cannot be read."""
    why: str
    """A sentence: why its run is taken to be over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A process of this user that carries a tag."""

    process: ProcessId
    run_id: str
    run_dir: Path | None
    """As its environment names it."""
    user: str
    words: tuple[str, ...]
    """Its command line."""
    stat: Stat


def blind(proc: Path = PROC) -> str | None:
    """Why no process can be looked at here, in a sentence; None where they can be."""
    if procfs.pids(proc):
        return None
    return f"There is no {proc} to look into, so what runs have left behind cannot be seen. Mount it, then ask again."


def find(roots: Sequence[Path], proc: Path = PROC) -> list[OrphanedProcess]:
    """All leftovers, oldest first. `roots`: where the folders of runs are looked for that a process does not name.

    Processes of other users, and of other namespaces of pids, are not looked at. None are found without `/proc`.
    """
    seen = list(_tagged(proc))
    if not seen:
        return []
    # Looked for after them: a run that began meanwhile had its supervisor before its workers.
    supervised = _supervised(proc)
    spared = _spared(seen)
    overs: dict[tuple[str, Path | None], tuple[Path | None, str] | None] = {}
    found = []
    for each in seen:
        key = each.run_id, each.run_dir
        if key not in overs:
            overs[key] = None if each.run_id in supervised else _over(each, roots)
        over = overs[key]
        if over is not None and each.process.pid not in spared:
            found.append(_leftover(each, *over, proc))
    return sorted(found, key=lambda each: each.process.created)


# -- looking -------------------------------------------------------------------------------------


def _tagged(proc: Path) -> Iterator[_Seen]:
    """The processes of this user that carry a tag."""
    here = procfs.namespace("self", proc)
    for pid in procfs.pids(proc):
        seen = _see(pid, proc)
        if seen is not None and procfs.namespace(pid, proc) in {here, None}:
            yield seen


def _see(pid: int, proc: Path) -> _Seen | None:
    """What is known of a process; None when it has ended, is another user's, or carries no tag."""
    environment = procfs.variables(pid, proc)
    run_id = procfs.variable(environment, TAG)
    if not run_id:
        return None
    about, stat = process_info.describe(pid, proc), procfs.stat(pid, proc)
    if not about.ours or about.user is None or stat is None or stat.state in procfs.ENDED:
        return None
    run_dir = procfs.variable(environment, RUN_DIR)
    return _Seen(
        process=ProcessId(pid=pid, created=stat.created),
        run_id=run_id,
        run_dir=Path(run_dir) if run_dir else None,
        user=about.user,
        words=procfs.words(pid, proc),
        stat=stat,
    )


# -- judging -------------------------------------------------------------------------------------


def _supervised(proc: Path) -> set[str]:
    """The runs that have a supervisor or a guard, in whatever state they are, and wherever their folders are.

    Those in containers are among them, whose folders may not be found from here.
    """
    lines = [words for words in (procfs.words(pid, proc) for pid in procfs.pids(proc)) if SUPERVISOR in words[:-1]]
    return {Path(words[words.index(SUPERVISOR) + 1]).name for words in lines}


def _over(seen: _Seen, roots: Sequence[Path]) -> tuple[Path | None, str] | None:
    """The run's folder and why it is over, of a run that nobody supervises; None when it is not, or cannot be told."""
    for folder in _folders(seen, roots):
        try:
            os.stat(folder)  # noqa: PTH116 (`exists` would not tell what is not there from what cannot be seen)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        run = Run(folder, only=(SUPERVISOR_EVENTS,))
        run.catch_up()
        state = state_info(run.facts.state)
        return (folder, f"Run {seen.run_id} is over ({state.label.lower()}).") if state.over else None
    what = f"The folder of run {seen.run_id} is gone" if seen.run_dir else f"There is no folder of run {seen.run_id}"
    return None, f"{what}, and nobody supervises it."


def _folders(seen: _Seen, roots: Sequence[Path]) -> list[Path]:
    """Where the run's folder may be. What stands in an environment need not be a run's name."""
    if Path(seen.run_id).name != seen.run_id:
        return []
    named = [seen.run_dir] if seen.run_dir is not None and seen.run_dir.name == seen.run_id else []
    return [*named, *(root / seen.run_id for root in roots)]


def _spared(seen: Sequence[_Seen]) -> set[int]:
    """Those that carry a tag but are somebody's work: a training was where a person opened a shell, say.

    These are whoever belongs to a terminal; the panel itself, its command and its supervisors; and this process.
    With them all between them and the run: a terminal's server, say; and all that they have started.
    """
    spared: set[int] = set()
    for run_id in {each.run_id for each in seen}:
        group = {each.process.pid: each for each in seen if each.run_id == run_id}
        at_work = {pid for pid, each in group.items() if _is_somebodys_work(each)}
        lines = {pid: _line(pid, group) for pid in group}
        spared |= {pid for pid, line in lines.items() if at_work & line}
        spared |= {pid for each in at_work for pid in lines[each]}
    return spared


def _is_somebodys_work(seen: _Seen) -> bool:
    return bool(seen.stat.terminal) or is_panel(seen.words) or seen.process.pid == os.getpid()


def _line(pid: int, group: Mapping[int, _Seen]) -> set[int]:
    """A process of the group and its ancestors in it."""
    line: set[int] = set()
    while pid in group and pid not in line:
        line.add(pid)
        pid = group[pid].stat.parent
    return line


def _leftover(seen: _Seen, run_dir: Path | None, why: str, proc: Path) -> OrphanedProcess:
    name = process_info.printable(seen.stat.name)
    return OrphanedProcess(
        process=seen.process,
        run_id=seen.run_id,
        run_dir=run_dir,
        name=name,
        command=process_info.printable(" ".join(seen.words)) or f"[{name}]",  # as ps(1) has one that wiped its own
        age_s=seen.stat.age_s,
        user=seen.user,
        memory_bytes=procfs.resident_bytes(seen.process.pid, proc),
        why=why,
    )
