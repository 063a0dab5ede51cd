"""Find processes that runs have left behind; remove a run that is over and has none, and nothing else.

The supervisor terminates all processes of its run, or the guard does (`core.supervisor.guard`) when the supervisor was
killed. A process is left only if both were killed, or if it could not be terminated then. Everything that is started
from inside a training inherits the tag, so not every process with a tag is an orphan: see `_spared`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import RunError
from core.history.summary import present_facts
from core.language import tr, tr_plural
from core.runs import stopped
from core.runs.facts import state_info
from core.runs.lock import held
from core.schema.files import read_json
from core.schema.paths import EVENTS, LOCK, SPEC_FILE
from core.system import processes, procfs
from core.system.folders import cache_of_run
from core.system.own_processes import is_main_process
from core.system.processes import RUN_DIR, TAG, ProcessId
from core.system.procfs import PROC, Stat
from core.system.terminate import ProcessTarget
from core.text import first_names, join_names


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanedProcess(ProcessTarget):
    """A process of one user that belongs to a run which is over."""

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
    return tr("There is no {proc}, so processes that runs have left behind cannot be seen. Mount it, then try again.",
              proc=proc)


def find_orphans(roots: Sequence[Path], proc: Path = PROC, *, uid: int | None = None) -> list[OrphanedProcess]:
    """Return all orphaned processes, oldest first; none without `/proc`.

    `roots`: folders of runs to search when a process does not name its run's folder. Processes of other users and of
    other pid namespaces are ignored: a tag and a command line are only what their owner says. `uid`: the user whose
    processes count; None for this one. Only root can see those of another.
    """
    uid = os.getuid() if uid is None else uid
    here = procfs.namespace("self", proc)
    found_tags = (_read(pid, proc, uid) for pid in procfs.pids(proc))
    seen = [each for each in found_tags if each and procfs.namespace(each.process.pid, proc) in {here, None}]
    if not seen:
        return []
    # Searched after the tagged processes: of a run that has just begun, the supervisor is older than the workers.
    supervised = stopped.supervised_runs(uid, proc)
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
    )


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
        state = state_info(present_facts(folder).state)
        words = tr("Run {run} is over ({state}).", run=seen.run_id, state=tr(state.label).lower())
        return (folder, words) if state.over else None
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
        in_use = {
            pid for pid, each in group.items()
            if each.stat.terminal or is_main_process(each.words) or pid == os.getpid()
        }
        ancestries = {pid: _ancestry(pid, group) for pid in group}
        spared |= {pid for pid, ancestry in ancestries.items() if in_use & ancestry}
        spared |= {pid for each in in_use for pid in ancestries[each]}
    return spared


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
    )


BLOCK_BYTES = 512
"""Bytes per unit of `st_blocks` on every file system."""
ATTEMPTS = 3
"""How often a folder is emptied."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LAST = (EVENTS, LOCK, SPEC_FILE)
"""Removed last, in this order: as long as they exist, the folder is still a run, and can be removed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """The outcome of a removal."""

    freed_bytes: int
    """Disk space that was freed."""
    problem: str = ""
    """Sentences if something could not be removed; else the empty string."""
    kept: Path | None = None
    """Where the run is kept, if it can be restored."""


def why_not(run_dir: Path) -> str:
    """Return why a run cannot be removed now; the empty string if it can."""
    if run_dir.is_symlink():
        return tr(
            "{run_dir} is a link, and links are not followed. Name the run's own folder, or remove the link (rm).",
            run_dir=run_dir,
        )
    if problem := _no_run(run_dir):
        return problem
    facts, run_id = present_facts(run_dir), run_dir.name
    state = state_info(facts.state)
    if not state.over:
        return tr("Run {id} is {state}, so it was not removed. Stop it first: trainyard stop {id}", id=run_id,
                  state=tr(state.label).lower())
    if why := stopped.guard_sentence(run_dir, facts):
        return tr("Run {id} was not removed. {why}", id=run_id, why=why)
    try:
        owner = run_dir.stat().st_uid if os.getuid() == 0 else None  # root also removes runs of others
    except OSError:  # another command has just removed it
        return tr("{run_dir} is not the folder of a run, so it was not removed.", run_dir=run_dir)
    left = [each for each in find_orphans([run_dir.parent], uid=owner) if each.run_id == run_id]
    return "" if not left else tr_plural(
        "Run {run} was not removed, since a process of it is still running: {names}. Terminate it first: "
        "trainyard sweep --end",
        "Run {run} was not removed, since processes of it are still running: {names}. Terminate them first: "
        "trainyard sweep --end",
        len(left), run=run_id,
        names=join_names(first_names([f"pid {each.process.pid} ({each.name})" for each in left])),
    )


def size_bytes(run_dir: Path) -> int:
    """Return the disk space that removing a run frees. Folders that cannot be read do not count."""
    total = 0
    for folder, _, files in os.walk(run_dir):  # it follows no links
        for path in (folder, *(os.path.join(folder, name) for name in files)):  # noqa: PTH118 (thousands of names)
            with contextlib.suppress(OSError):
                total += _held_by(os.lstat(path))
    return total


def remove(run_dir: Path) -> Removed:
    """Remove a run, unless `why_not` has an objection or the run is running."""
    if problem := why_not(run_dir):  # also asked before the lock, which a stopped guard keeps
        return Removed(freed_bytes=0, problem=problem)
    try:
        with held(run_dir) as release_files:  # so that it is not resumed meanwhile
            if problem := why_not(run_dir):
                return Removed(freed_bytes=0, problem=problem)
            removal = _Removal(release_files)
            removal.clear(run_dir)
            shutil.rmtree(cache_of_run(run_dir), ignore_errors=True)
    except RunError as error:
        return Removed(freed_bytes=0, problem=str(error))
    return Removed(freed_bytes=removal.freed_bytes, problem=_not_whole(run_dir, list(removal.problems.values())))


@dataclass(slots=True)
class _Removal:
    """Removes one folder, without following links and without entering file systems that are mounted below it."""

    release_files: Callable[[], None]
    """Called before files that are locked are removed."""
    freed_bytes: int = 0
    problems: dict[Path, str] = field(default_factory=dict)

    def clear(self, run_dir: Path) -> None:
        """Remove the folder. If something cannot be removed, the rest is, except the files that mark it as a run."""
        for attempt in range(ATTEMPTS):  # another command that came too late may write a file meanwhile
            self._empty(run_dir, first=attempt == 0)
            if self.problems or self._remove_itself(run_dir, again=attempt + 1 < ATTEMPTS):
                return

    def _empty(self, run_dir: Path, *, first: bool) -> None:
        handle = os.open(run_dir, FOLDER)
        try:
            device = os.fstat(handle).st_dev
            names = os.listdir(handle)  # noqa: PTH208 (a handle has no Path)
            for name in (each for each in names if each not in LAST):
                self._remove(handle, name, run_dir / name, device)
            if first:
                self.release_files()
            for name in (each for each in LAST if each in names):
                if not self.problems:
                    self._remove(handle, name, run_dir / name, device)
        finally:
            os.close(handle)

    def _remove_itself(self, run_dir: Path, *, again: bool) -> bool:
        """Remove the empty folder; return False if it is not empty and `again` allows to empty it once more."""
        try:
            state = run_dir.lstat()
            run_dir.rmdir()
        except OSError as error:
            if again and error.errno == errno.ENOTEMPTY:
                return False
            self.problems[run_dir] = _cannot_remove(run_dir, error)
        else:
            self.freed_bytes += _held_by(state)
        return True

    def _remove(self, parent: int, name: str, path: Path, device: int) -> None:
        """Remove an entry of a folder. `parent`: its handle; unlike a path, a link cannot take its place meanwhile."""
        try:
            state = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISDIR(state.st_mode):
                self._remove_below(parent, name, path, device)
                os.rmdir(name, dir_fd=parent)
            else:
                os.unlink(name, dir_fd=parent)
        except OSError as error:
            if not any(path in each.parents for each in self.problems):  # else an entry below it is the reason
                self.problems[path] = _cannot_remove(path, error)
        else:
            self.freed_bytes += _held_by(state)

    def _remove_below(self, parent: int, name: str, path: Path, device: int) -> None:
        handle = os.open(name, FOLDER, dir_fd=parent)
        try:
            if os.fstat(handle).st_dev != device:
                return  # something is mounted here: its content stays, and removing the folder fails with a message
            for each in os.listdir(handle):  # noqa: PTH208 (as above)
                self._remove(handle, each, path / each, device)
        finally:
            os.close(handle)


def _held_by(state: os.stat_result) -> int:
    """Return the bytes that removing this frees: none for a file that has another name."""
    return state.st_blocks * BLOCK_BYTES if stat.S_ISDIR(state.st_mode) or state.st_nlink == 1 else 0


def _no_run(run_dir: Path) -> str:
    """Return why this is not the folder of a run; the empty string if it is. A preset may be called `spec.json`."""
    spec, events = run_dir / SPEC_FILE, run_dir / EVENTS
    try:
        if stat.S_ISREG(spec.lstat().st_mode) and stat.S_ISDIR(events.lstat().st_mode):
            content = read_json(spec)
            if isinstance(content, dict) and {"version", "name", "strategy"} <= content.keys():
                return ""
    except ValueError:
        return tr(
            "{run_dir} was not removed: its spec.json is damaged. Delete the folder yourself if you no longer need it.",
            run_dir=run_dir,
        )
    except OSError:
        pass
    return tr("{run_dir} is not the folder of a run, so it was not removed.", run_dir=run_dir)


def _cannot_remove(path: Path, error: OSError) -> str:
    return tr("{path} cannot be removed: {strerror}", path=path, strerror=error.strerror)


def _not_whole(run_dir: Path, problems: list[str]) -> str:
    if not problems:
        return ""
    if len(problems) == 1:
        return tr("Not all of run {run} could be removed. {problem}. Change that, then remove it again.",
                  run=run_dir.name, problem=problems[0])
    return tr(
        "Not all of run {run} could be removed. {problem}, and {count} more. Change that, then remove it again.",
        run=run_dir.name, problem=problems[0], count=len(problems) - 1,
    )
