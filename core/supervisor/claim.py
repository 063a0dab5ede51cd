"""Claim a run directory for this supervisor; before a run is resumed, clear away what its last supervisor left."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from core.errors import RunError
from core.language import tr, tr_noop
from core.runs.facts import RunFacts, state_info
from core.runs.fold import fold
from core.runs.lock import Lock, already_running, cannot_resume, take
from core.runs.requests import Requests
from core.schema.event_kinds import Ended
from core.schema.events import Tail, Writer, make_reserve
from core.schema.paths import EVENTS, RENDEZVOUS, SUPERVISOR_EVENTS
from core.supervisor.guard import remove_sockets
from core.system import processes, procfs
from core.system.folders import writing
from core.system.processes import terminated
from core.system.terminate import ProcessTarget, terminate
from core.text import first_names, join_names

PATIENCE_S = 10.0
"""Seconds to wait for the last supervisor and its guard to leave, and for processes that no signal reaches.

A supervisor that has recorded the end of its run tidies up before it leaves; its guard may take a second more.
"""
NAP_S = 0.02


def claim(run_dir: Path) -> Lock:
    """Hold a new run directory for the life of this process; return its lock.

    The guard must release this lock: it must not hold the run when the supervisor is gone. Raises `RunError` when the
    directory has, or had, a supervisor, or when it cannot be locked.
    """
    lock = take(run_dir)
    if lock is None:
        raise RunError(already_running(run_dir))
    if (run_dir / EVENTS / SUPERVISOR_EVENTS).exists():
        raise RunError(
            tr(
                "Run {run_dir} has run before, and a run directory is used once. Start another run, or resume this.",
                run_dir=run_dir.name,
            )
        )
    if take(run_dir / EVENTS) is None:  # the supervisor and its guard keep it
        raise RunError(already_running(run_dir))
    return lock


def claim_queued(run_dir: Path, descriptors: list[int]) -> tuple[Lock, RunFacts]:
    """Hold a queued run with the lock that its waiting process has handed over, as `claim` does; also return its facts.

    Raises `RunError` when the guard of an earlier supervisor does not leave in time.
    """
    lock = Lock()
    lock.descriptors += descriptors
    _take_events(run_dir, time.monotonic() + PATIENCE_S)
    return lock, _facts(run_dir)


def claim_again(run_dir: Path) -> tuple[Lock, RunFacts]:
    """Hold the directory of a run that is over, as `claim` does, to resume it; also return the facts of the run.

    Raises `RunError` when the run is running or finished, or when its last guard does not leave in time.
    """
    deadline = time.monotonic() + PATIENCE_S
    # While it is locked, the last supervisor has recorded the end and leaves, or another process resumes the run.
    while (lock := take(run_dir)) is None:
        if not state_info(_facts(run_dir).state).over or time.monotonic() >= deadline:
            raise RunError(already_running(run_dir))
        time.sleep(NAP_S)
    facts = _facts(run_dir)
    state = state_info(facts.state)
    if state.over and not state.can_resume:
        raise RunError(cannot_resume(run_dir, facts.state))
    _take_events(run_dir, deadline)
    return lock, facts


def _take_events(run_dir: Path, deadline: float) -> None:
    """Lock the events of a run; wait until `deadline`. Raises `RunError`.

    The guard of a supervisor that was killed ends all processes of the run: it would end the new workers.
    """
    while take(run_dir / EVENTS) is None:
        if time.monotonic() >= deadline:
            sentence = tr_noop("Processes of run {run_dir} are still being terminated. Resume it in a moment.")
            raise RunError(tr(sentence, run_dir=run_dir.name))
        time.sleep(NAP_S)


def clear(run_dir: Path) -> None:
    """Clear away requests, rendezvous, processes and sockets of the last supervisor; renew the reserve file.

    Terminated processes are recorded. Raises `RunError` when a process is left, or when the disk is full.
    """
    Requests(run_dir).clear()
    (run_dir / RENDEZVOUS).unlink(missing_ok=True)
    _terminate_remaining(run_dir)
    remove_sockets(run_dir)
    full = tr("Free some space, then resume the run again.")
    with writing(run_dir, tr("Change its permissions, then resume the run again."), if_full=full):
        make_reserve(run_dir / EVENTS)


def _facts(run_dir: Path) -> RunFacts:
    """Return the facts that supervisors have recorded."""
    return fold(RunFacts(), Tail(run_dir / EVENTS / SUPERVISOR_EVENTS).read())


def _terminate_remaining(run_dir: Path) -> None:
    """Terminate the processes with the run's tag, and record them. Raises `RunError` when one is left."""
    run_id = run_dir.name
    if other := _namesake(run_dir):
        raise RunError(
            tr(
                "{run_dir} cannot be resumed while {other} is running: both have the same name, by which their "
                "processes are found. Rename the folder {run_dir}, then resume it under its new name.",
                run_dir=run_dir,
                other=other,
            )
        )
    outcome = terminate(
        lambda: [ProcessTarget(process=each, run_id=run_id) for each in processes.tagged(run_id)], patience_s=PATIENCE_S
    )
    if outcome.ended:  # readers show them with the part of the run that follows
        found = tuple(terminated(each.target.process, each.info, each.signal) for each in outcome.ended)
        with contextlib.closing(Writer(run_dir / EVENTS / SUPERVISOR_EVENTS)) as events:
            events.write(Ended(by="supervisor", processes=found, before_resume=True))
    if outcome.left:
        names = [f"pid {each.target.process.pid} {each.info.name or ''}".strip() for each in outcome.left]
        raise RunError(
            tr(
                "Run {run_dir} cannot be resumed while processes of it are left: {names}. {why}",
                run_dir=run_dir.name, names=join_names(first_names(names)), why=outcome.left[0].why,
            )
        )


def _namesake(run_dir: Path) -> str | None:
    """Return the folder of another run with this run's name and live processes, such as the original of a copy."""
    for process in processes.tagged(run_dir.name):
        folder = procfs.variable(procfs.variables(process.pid), processes.RUN_DIR) or ""
        if os.path.isdir(folder) and not os.path.samefile(folder, run_dir):  # noqa: PTH112, PTH121 (a text from outside)
            return folder
    return None
