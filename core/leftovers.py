"""Leftovers: processes that carry the tag of a run that is over; and how they are ended.

A run ends all that it started (`core.supervisor`, and `core.guard` when that was killed). Something is left only
where both were killed, or where a process could not be ended then. A tag is inherited by whatever is started from
inside a training, so not everybody who carries one is a leftover: see `_spared`.
"""

from __future__ import annotations

import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core import processes
from core.holders import describe
from core.processes import PROC, RUN_DIR, TAG
from core.run import Run
from core.state import ProcessId, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from core.findings import Holder

GRACE_S = 3.0
"""Between SIGTERM and SIGKILL."""
KILLED_S = 5.0
"""After SIGKILL: a process that held much memory takes a while to give it back."""
NAP_S = 0.02
STUCK = "D"
"""The state of a process that waits inside the kernel."""
GONE = frozenset("ZXx")
"""The states of processes that have ended."""
SUPERVISOR = "core.supervisor"
"""The module of supervisors; guards are forked from them, and look the same."""
PANEL_MODULES = frozenset({SUPERVISOR, "core.cli", "trainyard"})
PANEL_SCRIPTS = frozenset({"trainyard", "trainyard.py"})
PENDING = re.compile(rb"^S(?:ig|hd)Pnd:\s*([0-9a-f]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
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
class Ended:
    """A leftover that was ended."""

    leftover: Leftover
    signal: str
    """The last that it was sent: `SIGTERM` or `SIGKILL`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A leftover that is still there."""

    leftover: Leftover
    why: str
    """A sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of ending leftovers. One that went away by itself, unsignalled, is in neither."""

    ended: tuple[Ended, ...] = ()
    left: tuple[Left, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A process of this user that carries a tag."""

    process: ProcessId
    run_id: str
    run_dir: Path | None
    """As its environment names it."""
    about: Holder
    argv: tuple[str, ...]
    parent: int
    terminal: bool
    """Whether it belongs to somebody's terminal: a run's own processes never do."""


def blind(proc: Path = PROC) -> str | None:
    """Why no process can be looked at here, in a sentence; None where they can be."""
    if processes.pids(proc):
        return None
    return f"There is no {proc} to look into, so what runs have left behind cannot be seen. Mount it, then ask again."


def find(roots: Sequence[Path], proc: Path = PROC) -> list[Leftover]:
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


def end(leftovers: Iterable[Leftover], grace_s: float = GRACE_S, proc: Path = PROC) -> Outcome:
    """End them: SIGTERM, and after the grace SIGKILL to those that are still there. It waits until they are gone.

    Right before each signal it is asked again whether this is the process, by pid and create time, whether it is
    this user's, and whether it carries the tag. One that was sent SIGKILL before and sits in the kernel (state D)
    is not signalled again. Takes `grace_s` and `KILLED_S` at most, and raises nothing for who goes away meanwhile.
    """
    given = list(leftovers)
    sent: dict[ProcessId, signal.Signals] = {}
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILLED_S)):
        awaited = []
        for each in filter(_lives, given):
            if not _is_beyond(each, proc) and processes.send_tagged(each.process, each.run_id, number, proc):
                sent[each.process] = number
                awaited.append(each)
            elif _is_ending(each, proc):
                awaited.append(each)
        _wait_until(lambda: not any(map(_lives, awaited)), patience_s)  # noqa: B023 (called before the next round)
    living = {each.process for each in given if _lives(each)}
    return Outcome(
        ended=tuple(
            Ended(leftover=each, signal=sent[each.process].name)
            for each in given
            if each.process in sent and each.process not in living
        ),
        left=tuple(
            Left(leftover=each, why=_why_left(each, each.process in sent, proc))
            for each in given
            if each.process in living
        ),
    )


# -- looking -------------------------------------------------------------------------------------


def _tagged(proc: Path) -> Iterator[_Seen]:
    """The processes of this user that carry a tag."""
    here = _namespace(proc / "self")
    for pid in processes.pids(proc):
        seen = _see(pid, proc)
        if seen is not None and _namespace(proc / str(pid)) in {here, None}:
            yield seen


def _see(pid: int, proc: Path) -> _Seen | None:
    """What is known of a process; None when it has ended, is another user's, or carries no tag."""
    environment = processes.variables(pid, proc)
    run_id = _value(environment, TAG)
    if not run_id:
        return None
    about, stat = describe(pid, proc), _stat(pid, proc)
    if not about.ours or about.created is None or about.state in GONE or not stat:
        return None
    run_dir = _value(environment, RUN_DIR)
    return _Seen(
        process=ProcessId(pid=pid, created=about.created),
        run_id=run_id,
        run_dir=Path(run_dir) if run_dir else None,
        about=about,
        argv=_argv(pid, proc),
        parent=int(stat[1]),
        terminal=stat[4] != "0",
    )


def _value(environment: Sequence[bytes], name: str) -> str:
    start = f"{name}=".encode()
    return next((os.fsdecode(entry.removeprefix(start)) for entry in environment if entry.startswith(start)), "")


def _stat(pid: int, proc: Path) -> list[str]:
    """The fields of proc(5)'s `stat` from the state, the third, on; none when it is gone."""
    return _read(pid, "stat", proc).rpartition(b")")[2].decode().split()


def _argv(pid: int, proc: Path) -> tuple[str, ...]:
    return tuple(os.fsdecode(word) for word in _read(pid, "cmdline", proc).split(b"\0"))


def _read(pid: int, name: str, proc: Path) -> bytes:
    try:
        return (proc / str(pid) / name).read_bytes()
    except OSError:
        return b""  # gone meanwhile, or not ours to read


def _namespace(folder: Path) -> str | None:
    """The namespace in which a process has its pid; None when it cannot be told."""
    try:
        return os.readlink(folder / "ns" / "pid")  # noqa: PTH115 (what it reads is no path)
    except OSError:
        return None


# -- judging -------------------------------------------------------------------------------------


def _supervised(proc: Path) -> set[str]:
    """The runs that have a supervisor or a guard, in whatever state they are, and wherever their folders are.

    Those in containers are among them, whose folders may not be found from here.
    """
    lines = [argv for argv in (_argv(pid, proc) for pid in processes.pids(proc)) if SUPERVISOR in argv[:-1]]
    return {Path(argv[argv.index(SUPERVISOR) + 1]).name for argv in lines}


def _over(seen: _Seen, roots: Sequence[Path]) -> tuple[Path | None, str] | None:
    """The run's folder and why it is over, of a run that nobody supervises; None when it is not, or cannot be told."""
    for folder in _folders(seen, roots):
        try:
            os.stat(folder)  # noqa: PTH116 (`exists` would not tell what is not there from what cannot be seen)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        run = Run(folder, only=("supervisor.jsonl",))
        run.catch_up()
        state = row(run.facts.state)
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
        at_work = {pid for pid, each in group.items() if each.terminal or _is_panel(each.argv) or pid == os.getpid()}
        lines = {pid: _line(pid, group) for pid in group}
        spared |= {pid for pid, line in lines.items() if at_work & line}
        spared |= {pid for each in at_work for pid in lines[each]}
    return spared


def _line(pid: int, group: Mapping[int, _Seen]) -> set[int]:
    """A process of the group and its ancestors in it."""
    line: set[int] = set()
    while pid in group and pid not in line:
        line.add(pid)
        pid = group[pid].parent
    return line


def _is_panel(argv: Sequence[str]) -> bool:
    """Whether this is how the panel, one of its commands, or a supervisor is started."""
    modules = {argv[at + 1] for at, word in enumerate(argv[:-1]) if word == "-m"}
    return bool(PANEL_MODULES & modules) or any(Path(word).name in PANEL_SCRIPTS for word in argv[:2])


def _leftover(seen: _Seen, run_dir: Path | None, why: str, proc: Path) -> Leftover:
    about = seen.about
    name = about.name or "?"
    return Leftover(
        process=seen.process,
        run_id=seen.run_id,
        run_dir=run_dir,
        name=name,
        command=about.command or name,
        age_s=about.age_s or 0.0,
        user=about.user or str(os.getuid()),
        memory_bytes=processes.resident_bytes(seen.process.pid, proc) or None,
        why=why,
    )


# -- ending --------------------------------------------------------------------------------------


def _lives(leftover: Leftover) -> bool:
    return processes.is_alive(leftover.process)


def _is_beyond(leftover: Leftover, proc: Path) -> bool:
    """Whether no signal is of use: it sits in the kernel, and SIGKILL, which it was sent, waits for it."""
    pid = leftover.process.pid
    pending = (int(mask, 16) for mask in PENDING.findall(_read(pid, "status", proc)))
    return _stat(pid, proc)[:1] == [STUCK] and any(mask >> (signal.SIGKILL - 1) & 1 for mask in pending)


def _is_ending(leftover: Leftover, proc: Path) -> bool:
    """Whether it has given up its memory, and with it its environment: the last thing that a process does."""
    return _read(leftover.process.pid, "statm", proc).startswith(b"0 ")


def _why_left(leftover: Leftover, signalled: bool, proc: Path) -> str:
    """Why a process is still there although all was done."""
    seen, ending = _see(leftover.process.pid, proc), _is_ending(leftover, proc)
    if not ending and (seen is None or (seen.process, seen.run_id) != (leftover.process, leftover.run_id)):
        return "It does not carry the run's tag any more, or is another user's, and was left alone."
    if _stat(leftover.process.pid, proc)[:1] == [STUCK]:
        return (
            "It was killed but waits inside the kernel (state D), where no signal reaches it. It ends when what it "
            "waits for answers: a disk, or a driver. If it never does, only reloading that driver or a reboot helps."
        )
    if signalled or ending:
        return "It was told to end and has not yet: it may have much memory to give back. Look again in a moment."
    return "The system did not let it be signalled. End it as the user who started it, or as root."


def _wait_until(condition: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(NAP_S)
