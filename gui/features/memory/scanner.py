"""List the processes on the devices and those of former runs, and terminate those that the user chose."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal

from core.devices.device import Device, Process
from core.history import removal
from core.history.removal import OrphanedProcess
from core.language import join_sentences, tr, tr_noop, tr_plural
from core.memory_watch import gpu_processes
from core.runs.facts import RunFacts, RunState, state_info
from core.schema.event_kinds import ProcessInfo
from core.system import processes, procfs
from core.system.processes import ProcessId
from core.system.procfs import PROC
from core.system.terminate import GRACE_S, ProcessTarget, terminate
from core.text import first_names, join_names, one_line
from gui.base.formatting import age
from gui.base.jobs import Jobs, keep_as_it_is, reason
from gui.machine.monitor import DeviceMonitor
from gui.runs.rows import run_title
from gui.runs.run_list import RunListService
from gui.runs.session import RunSession

DESCRIBED_S = 5.0
"""Seconds between two descriptions of the known processes."""
SCAN_S, SCAN_AFTER_RUN_S, SCAN_IDLE_S = 5.0, 0.5, 30.0
"""Seconds between two scans of `/proc` while processes are shown: usually, just after a run has ended, and without one,
which may be so all day: drivers list nearly all processes."""
AFTER_RUN_S = 30.0
HANGS_S = 10.0
"""Seconds after which a scan is taken to hang on a process in state D."""
NOT_LISTED = tr_noop("Processes could not be listed: {reason}. The scan is repeated every few seconds.")
HANGS = tr_noop(
    "Listing processes takes long: a process may hang in the kernel (state D). The list may be out of date."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEntry:
    """A process on devices, or one that a run left behind."""

    info: ProcessInfo
    """`memory_used_bytes` is the sum over its devices, or resident memory for a process on CPU devices only."""
    devices: tuple[str, ...]
    """Device ids; empty if there are none or they are unknown."""
    leftover: OrphanedProcess | None = None
    on_gpus: Mapping[str, int | None] = field(default_factory=dict)
    """By GPU, the bytes of its memory that the process holds."""
    usage: ProcessUsage | None = None


class ProcessUsage(NamedTuple):
    """What a process uses of the machine. Ticks are those of `procfs.Stat`."""

    started_ticks: int
    cpu_ticks: int
    at: float
    """When it was read, in seconds of `time.monotonic()`."""
    resident_bytes: int | None
    cpu_percent: float | None
    """Of one core, since the reading before."""


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
class ProcessScan:
    """The result of one scan of `/proc`."""

    device_processes: tuple[ProcessInfo, ...] = ()
    run_id: str | None = None
    """The run that the window showed."""
    of_run: tuple[ProcessInfo, ...] = ()
    """The processes with the tag of that run."""
    leftovers: tuple[OrphanedProcess, ...] = ()
    left: tuple[ProcessInfo, ...] = ()
    """The processes in `leftovers`, described."""
    problem: str | None = None
    """Why the scan is incomplete: a sentence, or None."""

    @property
    def lasting(self) -> object:
        """Everything except values that change by themselves."""
        described = [[_lasting(holder) for holder in each] for each in (self.device_processes, self.of_run, self.left)]
        return described, self.run_id, self.problem


class ProcessScanner(QObject):
    """`poll` never blocks.

    The window's own thread reads nothing of a process but its `stat`: its command line and its environment wait for
    the lock on its memory, which a process that hangs in the kernel may hold for ever.
    """

    changed = Signal()
    """Processes came or went, or changed; growing older is no change."""

    def __init__(
        self, monitor: DeviceMonitor, board: RunListService, session: RunSession, *, is_here: bool = True
    ) -> None:
        """`is_here`: whether runs and devices are those of this machine; a pid of another one means nothing here."""
        super().__init__()
        self._is_here = is_here
        self.device_processes: tuple[ProcessInfo, ...] = ()
        """One entry for each process and device: processes that drivers list, and workers of the run on CPU devices."""
        self._usage: Mapping[int, ProcessUsage] = {}
        self._monitor, self._board, self._session = monitor, board, session
        self._latest_scan = ProcessScan()
        # A thread of its own for each: a scan of all of `/proc` meets more processes that may hang.
        self._scanning, self._describing = Jobs(self, "scan"), Jobs(self, "describe")
        self._scanned_at = self._described_at = float("-inf")
        self._named: object = None
        self._names_of: tuple[object, dict[str, str], frozenset[str]] = (None, {}, frozenset())
        """A list of summaries, and names of all its runs and folders of its live ones."""
        self._here = processes.here()
        session.attached.connect(self.scan_soon)

    @property
    def problem(self) -> str | None:
        """Why not all processes could be seen: a sentence, or None."""
        hung_s = max(self._scanning.busy_s, self._describing.busy_s)
        return tr(HANGS) if hung_s > HANGS_S else self._latest_scan.problem

    @property
    def just_ended(self) -> bool:
        """Whether the memory of the run that is shown is being watched, or was in the last half minute."""
        return just_ended(self._session.facts, time.time())

    def poll(self, *, shown: bool) -> None:
        """Start the scans that are due. `shown`: the processes can be seen."""
        if self._is_here:
            self._describe_when_due(shown=shown)
            if shown:
                self._scan_when_due()

    def scan_soon(self) -> None:
        """Scan `/proc` at the next poll at which processes are shown."""
        self._scanned_at = self._described_at = float("-inf")

    def entries(self) -> list[ProcessEntry]:
        """Return the processes that use devices or are orphaned and are still alive, each once."""
        run, scan = self._session.run, self._latest_scan
        of_run = scan.of_run if run is not None and run.id == scan.run_id else ()
        by_pid: dict[int, list[ProcessInfo]] = {}
        for holder in (*self.device_processes, *scan.device_processes, *of_run, *scan.left):
            by_pid.setdefault(holder.pid, []).append(holder)
        left = {each.process.pid: each for each in scan.leftovers}
        entries = (_entry(same, left.get(pid), self._usage.get(pid)) for pid, same in by_pid.items())
        return [entry for entry in entries if _is_there(entry.info)]

    def runs(self) -> KnownRuns:
        """Return the runs that processes may belong to."""
        run, summaries = self._session.run, self._board.summaries
        if self._names_of[0] is not summaries:  # asked twice a second, and there may be thousands
            living = frozenset(each.dir.name for each in summaries if not state_info(each.state).over)
            titles = {each.dir.name: run_title(each, time.time()) for each in summaries if each.dir.name in living}
            self._names_of = summaries, {each.dir.name: each.name for each in summaries} | titles, living
        _, names, living = self._names_of
        return KnownRuns(
            shown=run.id if run else None,
            names=names,
            living=frozenset({*living, *([run.id] if run and self._session.live else [])}),
        )

    # -- describe ---------------------------------------------------------------------------------

    def _describe_when_due(self, *, shown: bool) -> None:
        """Describe the known processes if there are others, or if their descriptions are old."""
        now = time.monotonic()
        named = [(sample.device_id, sample.processes) for sample in self._monitor.survey.samples]
        workers = self._workers()
        if (named, workers) == self._named and now - self._described_at < DESCRIBED_S:
            return
        if self._describing.busy:
            return
        self._named, self._described_at = (named, workers), now
        on_devices = [(device, process) for device, listed in named for process in listed or ()]
        scan, usage = self._latest_scan, self._usage
        pids = {each.pid for each in (*scan.device_processes, *scan.of_run, *scan.left)} if shown else set()
        if on_devices or workers or pids:
            self._describing.start(
                lambda: (found := _described(on_devices, workers), _usage(pids | {each.pid for each in found}, usage)),
                self._take_described, keep_as_it_is,
            )
        elif self.device_processes:
            self.device_processes = ()
            self.changed.emit()

    def _take_described(self, found: tuple[tuple[ProcessInfo, ...], Mapping[int, ProcessUsage]]) -> None:
        described, self._usage = found
        before, self.device_processes = self.device_processes, described
        if list(map(_lasting, before)) != list(map(_lasting, described)):
            self.changed.emit()

    def _workers(self) -> list[tuple[int, str]]:
        """Return the live workers of the run on CPU devices, as (pid, device id); drivers list those on GPUs."""
        facts = self._session.facts
        if not self._session.live or facts.host != self._here:
            return []
        return [
            (worker.process.pid, device)
            for worker in facts.workers.values()
            if worker.exit_code is None and processes.is_alive(worker.process)
            for device in worker.devices
            if device.startswith("cpu:")
        ]

    # -- scan /proc -------------------------------------------------------------------------------

    def _take_scan(self, scan: ProcessScan) -> None:
        before, self._latest_scan = self._latest_scan, scan
        if scan.lasting != before.lasting:
            self.changed.emit()

    def _scan_when_due(self) -> None:
        pause_s = SCAN_AFTER_RUN_S if self.just_ended else SCAN_IDLE_S if self._session.run is None else SCAN_S
        if self._scanning.busy or time.monotonic() - self._scanned_at < pause_s:
            return
        self._scanned_at = time.monotonic()
        survey, run = self._monitor.survey, self._session.run
        gpus = [device for device in survey.devices if device.kind != "cpu"]
        listed = {sample.device_id: sample.processes for sample in survey.samples}
        root, run_id = self._board.root, run.id if run else None
        self._scanning.start(
            lambda: _scan_proc(gpus, listed, root, run_id), self._take_scan,
            lambda error: self._take_scan(ProcessScan(problem=tr(NOT_LISTED, reason=reason(error)))),
        )


def just_ended(facts: RunFacts, now: float) -> bool:
    """Return whether the training of a run ended within the last half minute; `now` in unix seconds."""
    ended = next((time for time, state in reversed(facts.history) if state is RunState.RELEASING), facts.ended)
    return facts.state is RunState.RELEASING or (ended is not None and 0 <= now - ended < AFTER_RUN_S)


def _scan_proc(
    gpus: Sequence[Device], listed: Mapping[str, Sequence[Process] | None], root: Path, run_id: str | None
) -> ProcessScan:
    scan = gpu_processes.scan(gpus, listed)
    left = find_orphans(root)
    return ProcessScan(
        device_processes=scan.holders,
        run_id=run_id,
        of_run=tuple(_resident(each.pid) for each in (processes.tagged(run_id) if run_id else ())),
        leftovers=tuple(left),
        left=tuple(replace(processes.describe(each.process.pid), memory_used_bytes=each.memory_bytes) for each in left),
        problem=scan.trouble or removal.blind(),
    )


def _described(
    on_devices: Sequence[tuple[str, Process]], workers: Sequence[tuple[int, str]]
) -> tuple[ProcessInfo, ...]:
    """Return the processes that drivers list, and the workers on CPU devices."""
    found = []
    for device, each in on_devices:
        described = processes.describe(each.pid)
        found.append(replace(described, device_id=device, memory_used_bytes=each.memory_used_bytes))
    return (*found, *(replace(_resident(pid), device_id=device) for pid, device in workers))


def _usage(pids: Iterable[int], before: Mapping[int, ProcessUsage]) -> dict[int, ProcessUsage]:
    """Return what processes use. `before`: the readings before, from which on the time of cores is counted."""
    found = {}
    for pid in pids:
        stat, now, last, percent = procfs.stat(pid), time.monotonic(), before.get(pid), None
        if stat is not None:
            if last is not None and last.started_ticks == stat.ticks and last.at < now:
                percent = 100 * (stat.cpu_ticks - last.cpu_ticks) / procfs.TICKS_PER_S / (now - last.at)
            found[pid] = ProcessUsage(stat.ticks, stat.cpu_ticks, now, procfs.resident_bytes(pid), percent)
    return found


def _resident(pid: int) -> ProcessInfo:
    """Return a process with its resident memory."""
    return replace(processes.describe(pid), memory_used_bytes=procfs.resident_bytes(pid))


def _lasting(holder: ProcessInfo) -> ProcessInfo:
    """Return a process without values that change by themselves: its age, and whether it runs or waits."""
    return replace(holder, age_s=None, state=holder.state if holder.state in procfs.ENDED else None)


def _entry(
    same: Sequence[ProcessInfo], leftover: OrphanedProcess | None, usage: ProcessUsage | None
) -> ProcessEntry:
    """Join everything known about a process. On GPUs its memory is what the drivers list, else its resident memory."""
    devices = tuple(dict.fromkeys(holder.device_id for holder in same if holder.device_id is not None))
    newest = next((holder for holder in same if holder.name is not None), same[0])
    if leftover is not None and leftover.process.created != newest.created:
        leftover = None  # another process has its pid now
    on_gpus = {
        holder.device_id: holder.memory_used_bytes
        for holder in reversed(same)  # the first entry of a device counts
        if holder.device_id is not None and not holder.device_id.startswith("cpu:")
    }
    sizes = on_gpus.values() if on_gpus else (holder.memory_used_bytes for holder in same)
    known = [each for each in sizes if each is not None][: len(on_gpus) or 1]
    info = replace(newest, memory_used_bytes=sum(known) if known else None)
    return ProcessEntry(info=info, devices=devices, leftover=leftover, on_gpus=on_gpus, usage=usage)


def _is_there(holder: ProcessInfo) -> bool:
    """Return whether a described process is still alive; True for one that could not be described."""
    if holder.created is None:
        return True
    found = processes.identify(holder.pid)
    return found is not None and found.created == holder.created


MAX_NAMES, MAX_LINES, MAX_REASONS, SHORT_COMMAND = 3, 8, 4, 90
"""Maximum numbers of names, lines and reasons in a text, and of characters of a command line."""
OF_SEVERAL_RUNS = tr_noop(
    "{count} processes of {runs} ended runs are still running: {processes}. They may use memory of a device."
)


class ProcessTerminator(QObject):
    """One request after the other. User and start time of a process are checked again right before each signal."""

    ended = Signal(str, str)
    """A sentence on the result, and its tone."""

    def __init__(self) -> None:
        super().__init__()
        self._jobs = Jobs(self, "terminate", guards=True)

    def end(self, entry: ProcessEntry) -> None:
        """End a process."""
        leftover, holder = entry.leftover, entry.info
        if leftover is not None:
            self.end_leftovers([leftover])
        else:
            refused = tr("{name} (pid {pid}) could not be ended", name=holder.name, pid=holder.pid)
            self._ask(refused, lambda: end_one(holder))

    def end_leftovers(self, those: Sequence[OrphanedProcess]) -> None:
        """End orphaned processes of runs."""
        self._ask(tr("The leftover processes could not be ended"), lambda: end_leftovers(those))

    def _ask(self, failure: str, work: Callable[[], tuple[str, str]]) -> None:
        """`failure`: the sentence if it fails, without its reason; `work`: returns a sentence and its tone."""
        self._jobs.add(
            work,
            lambda outcome: self.ended.emit(*outcome),
            lambda error: self.ended.emit(tr("{failure}: {reason}.", failure=failure, reason=reason(error)), "bad"),
        )


def end_leftovers(those: Sequence[OrphanedProcess]) -> tuple[str, str]:
    """End orphaned processes; return a sentence and its tone."""
    outcome = terminate(lambda: those)
    if outcome.left:
        left = [(each.target.name, each.target.process.pid, each.why) for each in outcome.left]
        stuck = " ".join(tr("{name} (pid {pid}): {why}", name=name, pid=pid, why=why) for name, pid, why in left)
        return tr("Some leftover processes could not be ended. {stuck}", stuck=stuck), "bad"
    if not outcome.ended:
        return tr("The leftover processes have already ended."), "good"
    ended = [tr("{name} (pid {pid})", name=each.target.name, pid=each.target.process.pid) for each in outcome.ended]
    names = join_names(first_names(ended, MAX_NAMES, tr_noop("{count} others")))
    return tr_plural("{names} was ended.", "{names} were ended.", len(ended), names=names), "good"


def end_one(holder: ProcessInfo, grace_s: float | None = None) -> tuple[str, str]:
    """End one process of this user that belongs to no live run; return a sentence and its tone.

    `grace_s`: seconds for it to end by itself after a signal; None for the usual ones.
    """
    name = tr("{name} (pid {pid})", name=holder.name, pid=holder.pid)
    assert holder.created is not None
    alone = ProcessTarget(process=ProcessId(pid=holder.pid, created=holder.created), run_id=holder.run_id)
    outcome = terminate(lambda: [alone], grace_s=GRACE_S if grace_s is None else grace_s)
    if outcome.left:
        return tr("{name} is still running. {why}", name=name, why=outcome.left[0].why), "bad"
    if not outcome.ended:
        return tr("{name} has ended.", name=name), "good"
    return tr("{name} was ended ({signal}).", name=name, signal=outcome.ended[0].signal), "good"


def leftovers_sentence(found: Sequence[OrphanedProcess], names: Mapping[str, str]) -> str:
    """Return `2 processes of the ended run X are still running: ...`; "" for none. `names`: of runs by id."""
    if not found:
        return ""
    runs = list(dict.fromkeys(each.run_id for each in found))
    names_of = [tr("{name} (pid {pid})", name=each.name, pid=each.process.pid) for each in found]
    processes = join_names(first_names(names_of, MAX_NAMES))
    if len(runs) == 1:
        return tr_plural(
            "{count} process of the ended run {name} is still running: {processes}. It may use memory of a device.",
            "{count} processes of the ended run {name} are still running: {processes}. "
            "They may use memory of a device.",
            len(found),
            name=names.get(runs[0], runs[0]),
            processes=processes,
        )
    return tr(OF_SEVERAL_RUNS, count=len(found), runs=len(runs), processes=processes)


def leftovers_confirmation(found: Sequence[OrphanedProcess]) -> tuple[str, str]:
    """Return the question before ending leftover processes, and a list of them."""
    first, lines = found[0], []
    for each in found:
        command, old = one_line(each.command, SHORT_COMMAND), age(each.age_s)
        name, pid = each.name, each.process.pid
        lines.append(tr("pid {pid}  {name}  ({age} old): {command}", pid=pid, name=name, age=old, command=command))
    whys = list(dict.fromkeys(each.why for each in found))
    reasons = first_names(whys, MAX_REASONS, tr_noop("{count} more runs have ended too."))
    if len(found) > 1:
        question = tr("End the leftover processes?")
        how = tr("They are asked to end (SIGTERM) and killed some seconds later (SIGKILL).")
    else:
        question = tr("End {name} (pid {pid})?", name=first.name, pid=first.process.pid)
        how = tr("It is asked to end (SIGTERM) and killed some seconds later (SIGKILL).")
    return question, "\n".join([*first_names(lines, MAX_LINES), "", *reasons, how])


def family(info: ProcessInfo) -> str:
    """Return `Started by bash 41000. 2 children: python 41300 and python 41301.`; "" if it has ended.

    Parents are followed up to the leader of a session, such as a shell. Reads them at each call.
    """
    stat, parents = procfs.stat(info.pid), list[str]()
    if stat is None or stat.created != info.created:
        return ""
    pid = stat.parent
    with contextlib.suppress(OSError):  # a parent has just ended
        while pid > 1 and (parent := procfs.stat(pid)) is not None:
            parents.insert(0, f"{parent.name} {pid}")
            pid = 0 if os.getsid(pid) == pid else parent.parent
    children = [f"{child.name} {each}" for each in procfs.children(info.pid) if (child := procfs.stat(each))]
    names = join_names(first_names(children, MAX_NAMES))
    below = tr_plural("{count} child: {names}.", "{count} children: {names}.", len(children), names=names)
    above = tr("Started by {parents}.", parents=" › ".join(parents))
    return join_sentences([above if parents else "", below if children else ""])


ALIVE_PERIOD_S = 1.0
"""Seconds between two checks whether the processes that were found are still alive."""


class OrphanScanner(QObject):
    """Searches for processes of former runs that still live. `poll` never blocks."""

    changed = Signal()

    def __init__(self, root: Path, *, is_here: bool = True) -> None:
        """`is_here`: whether the runs are those of this machine; processes of another one are not searched here."""
        super().__init__()
        self._is_here = is_here
        self.found: tuple[OrphanedProcess, ...] = ()
        self._root = root
        self._jobs = Jobs(self, "leftovers")
        self._asked = 0.0

    def scan(self) -> None:
        """Search all processes in the background."""
        root = self._root
        if self._is_here:
            self._jobs.start(lambda: find_orphans(root), lambda found: self._show(tuple(found)), keep_as_it_is)

    def poll(self) -> None:
        """Drop the processes that have ended."""
        if self.found and time.monotonic() - self._asked > ALIVE_PERIOD_S:
            self._asked = time.monotonic()
            self._show(tuple(each for each in self.found if processes.is_alive(each.process)))

    def _show(self, found: tuple[OrphanedProcess, ...]) -> None:
        if [each.process for each in found] != [each.process for each in self.found]:
            self.found = found
            self.changed.emit()


def find_orphans(root: Path) -> list[OrphanedProcess]:
    """Return the orphaned processes of runs, oldest first. Blocks for a while.

    `root`: the folder of runs, for processes that do not name theirs.
    """
    return removal.find_orphans([root], PROC)
