"""Find orphaned processes: those with the tag of a run that is over.

The supervisor terminates all processes of its run, or the guard does (`core.supervisor.guard`) when the supervisor was
killed. A process is left only if both were killed, or if it could not be terminated then. Everything that is started
from inside a training inherits the tag, so not every process with a tag is an orphan: see `_spared`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.language import tr
from core.runs.facts import state_info
from core.runs.run import Run
from core.schema.paths import SUPERVISOR_EVENTS
from core.system import processes, procfs
from core.system.own_processes import is_main_process, supervised_runs
from core.system.processes import RUN_DIR, TAG, ProcessId
from core.system.procfs import PROC, Stat


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanedProcess:
    """A process of one user that belongs to a run which is over."""

    process: ProcessId
    run_id: str
    run_dir: Path | None
    """The run's folder; None if it is gone or was not found."""
    name: str
    command: str
    age_s: float
    """Seconds since it was started."""
    user: str
    memory_bytes: int | None
    """Resident memory; None if it cannot be read."""
    why: str
    """A sentence on why its run counts as over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tagged:
    """A process with a tag."""

    process: ProcessId
    run_id: str
    run_dir: Path | None
    """The run's folder according to the environment of the process."""
    user: str
    words: tuple[str, ...]
    """The command line."""
    stat: Stat


def blind(proc: Path = PROC) -> str | None:
    """Return why no process can be seen here; None if they can."""
    if procfs.pids(proc):
        return None
    return tr(
        "There is no {proc}, so processes that runs have left behind cannot be seen. Mount it, then try again.",
        proc=proc,
    )


def find(roots: Sequence[Path], proc: Path = PROC, *, uid: int | None = None) -> list[OrphanedProcess]:
    """Return all orphaned processes, oldest first; none without `/proc`.

    `roots`: folders of runs to search when a process does not name its run's folder. Processes of other users and of
    other pid namespaces are ignored: a tag and a command line are only what their owner says. `uid`: the user whose
    processes count; None for this one. Only root can see those of another.
    """
    uid = os.getuid() if uid is None else uid
    seen = list(_tagged(proc, uid))
    if not seen:
        return []
    # Searched after the tagged processes: of a run that has just begun, the supervisor is older than the workers.
    supervised = supervised_runs(uid, proc)
    spared = _spared(seen)
    overs: dict[tuple[str, Path | None], tuple[Path | None, str] | None] = {}
    found = []
    for each in seen:
        key = each.run_id, each.run_dir
        if key not in overs:
            overs[key] = None if each.run_id in supervised else _over(each, roots)
        over = overs[key]
        if over is not None and each.process.pid not in spared:
            found.append(_orphan(each, *over, proc))
    return sorted(found, key=lambda each: each.process.created)


# -- find tagged processes -----------------------------------------------------------------------


def _tagged(proc: Path, uid: int) -> Iterator[_Tagged]:
    """Return the processes of a user and of this pid namespace that have a tag."""
    here = procfs.namespace("self", proc)
    for pid in procfs.pids(proc):
        seen = _read(pid, proc, uid)
        if seen is not None and procfs.namespace(pid, proc) in {here, None}:
            yield seen


def _read(pid: int, proc: Path, uid: int) -> _Tagged | None:
    """Return a process; None if it has exited, belongs to another user, or has no tag."""
    environment = procfs.variables(pid, proc)
    run_id = procfs.variable(environment, TAG)
    if not run_id:
        return None
    about, stat = processes.describe(pid, proc), procfs.stat(pid, proc)
    if procfs.owner(pid, proc) != uid or about.user is None or stat is None or stat.state in procfs.ENDED:
        return None
    run_dir = procfs.variable(environment, RUN_DIR)
    return _Tagged(
        process=ProcessId(pid=pid, created=stat.created), run_id=run_id, run_dir=Path(run_dir) if run_dir else None,
        user=about.user, words=procfs.words(pid, proc), stat=stat,
    )  # fmt: skip


# -- decide which are orphaned -------------------------------------------------------------------


def _over(seen: _Tagged, roots: Sequence[Path]) -> tuple[Path | None, str] | None:
    """Return the folder of an unsupervised run and why it is over; None if it is not over, or that is unknown."""
    for folder in _folders(seen, roots):
        try:
            os.stat(folder)  # noqa: PTH116 (`exists` does not distinguish a missing folder from one that cannot be accessed)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        run = Run(folder, only=(SUPERVISOR_EVENTS,))
        run.catch_up()
        state = state_info(run.facts.state)
        return (
            (folder, tr("Run {run} is over ({state}).", run=seen.run_id, state=tr(state.label).lower()))
            if state.over
            else None
        )
    if seen.run_dir:
        return None, tr("The folder of run {run} is gone, and it has no supervisor.", run=seen.run_id)
    return None, tr("There is no folder of run {run}, and it has no supervisor.", run=seen.run_id)


def _folders(seen: _Tagged, roots: Sequence[Path]) -> list[Path]:
    """Return where the run's folder may be. The tag in an environment need not be the name of a run."""
    if Path(seen.run_id).name != seen.run_id:
        return []
    named = [seen.run_dir] if seen.run_dir is not None and seen.run_dir.name == seen.run_id else []
    return [*named, *(root / seen.run_id for root in roots)]


def _spared(seen: Sequence[_Tagged]) -> set[int]:
    """Return the pids of tagged processes that a user works with, for example after opening a shell in a training.

    These are processes with a terminal; Trainyard's own window, command and supervisors; and this process. Their
    ancestors with the tag, such as the server of a terminal, and all their descendants are spared with them.
    """
    spared: set[int] = set()
    for run_id in {each.run_id for each in seen}:
        group = {each.process.pid: each for each in seen if each.run_id == run_id}
        in_use = {pid for pid, each in group.items() if _is_in_use(each)}
        ancestries = {pid: _ancestry(pid, group) for pid in group}
        spared |= {pid for pid, ancestry in ancestries.items() if in_use & ancestry}
        spared |= {pid for each in in_use for pid in ancestries[each]}
    return spared


def _is_in_use(seen: _Tagged) -> bool:
    return bool(seen.stat.terminal) or is_main_process(seen.words) or seen.process.pid == os.getpid()


def _ancestry(pid: int, group: Mapping[int, _Tagged]) -> set[int]:
    """Return the pid of a process of the group and those of its ancestors in the group."""
    line: set[int] = set()
    while pid in group and pid not in line:
        line.add(pid)
        pid = group[pid].stat.parent
    return line


def _orphan(seen: _Tagged, run_dir: Path | None, why: str, proc: Path) -> OrphanedProcess:
    name = processes.printable(seen.stat.name)
    return OrphanedProcess(
        process=seen.process, run_id=seen.run_id, run_dir=run_dir, name=name, age_s=seen.stat.age_s, user=seen.user,
        command=processes.printable(" ".join(seen.words))
        or f"[{name}]",  # as ps(1) shows a process without a command line
        memory_bytes=procfs.resident_bytes(seen.process.pid, proc), why=why,
    )  # fmt: skip
