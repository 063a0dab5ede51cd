"""Which runs have a supervisor; the processes of a live run that are stopped (by SIGSTOP, Ctrl-Z or a debugger).

The events of a run are only what its owner wrote: they may name any process of this machine. A supervisor and a guard
are recognised by their command line, and a worker by its user.
"""

from __future__ import annotations

import signal
from pathlib import Path

from core.language import join_sentences, tr, tr_noop
from core.runs.facts import RunFacts
from core.system import processes, procfs
from core.system.helper_process import wait_until
from core.system.own_processes import SUPERVISOR
from core.system.processes import ProcessId
from core.system.procfs import PROC

CONTINUED_S = 1.0
"""Seconds to wait for a process after SIGCONT: then a debugger holds it, or something stops it again."""


def supervised_runs(uid: int, proc: Path = PROC) -> set[str]:
    """Return the ids of a user's runs that have a supervisor or a guard, also in containers with other folders.

    A process of another user does not count: any user can start one with such a command line. Nor does one that is
    stopped, if the run's folder is here: a stopped guard terminates nothing, and the folder tells if the run lives.
    """
    lines = ((pid, procfs.words(pid, proc)) for pid in procfs.pids(proc))
    found = [(pid, words[words.index(SUPERVISOR) + 1]) for pid, words in lines if SUPERVISOR in words[:-1]]
    return {
        Path(run_dir).name
        for pid, run_dir in found
        if procfs.owner(pid, proc) == uid and not (procfs.state(pid, proc) in procfs.STOPPED and Path(run_dir).is_dir())
    }


def sentences(run_dir: Path, facts: RunFacts) -> str:
    """Return which processes of a run are stopped and what to do; the empty string if none is."""
    found = []
    if state := _own_state(run_dir, facts.supervisor):
        found.append(
            tr(
                "{supervisor} is stopped (state {state}), so it answers no request. "
                "Continue it (kill -CONT {pid}), or end the run: trainyard stop {run} --force",
                supervisor=_supervisor(facts), state=state, pid=_pid(facts.supervisor), run=run_dir.name,
            )
        )
    if guard := guard_sentence(run_dir, facts):
        found.append(guard)
    found += [
        tr(
            "Worker {rank} (pid {pid}) is stopped (state {state}), so it neither trains nor answers "
            "requests. Continue it (kill -CONT {pid}), or stop the run.",
            rank=each.rank, pid=each.process.pid, state=state,
        )
        for each in facts.workers.values()
        if each.exit_code is None and not each.host
        and (state := _state(each.process)) and _is_of_owner(run_dir, each.process)
    ]
    return join_sentences(found)


def guard_sentence(run_dir: Path, facts: RunFacts) -> str:
    """Return that the guard of a run is stopped and what to do; the empty string if it is not."""
    state = _own_state(run_dir, facts.guard)
    return state and tr(
        "The guard of run {run} (pid {pid}) is stopped (state {state}), so it cannot terminate "
        "what is left of the run. Continue it: kill -CONT {pid}",
        run=run_dir.name, pid=_pid(facts.guard), state=state,
    )


def continue_supervisor(run_dir: Path, facts: RunFacts) -> str:
    """Continue a stopped supervisor and its guard; kill a supervisor that cannot be continued, so that the guard acts.

    Returns sentences on what was done; the empty string if neither was stopped.
    """
    done = []
    if _own_state(run_dir, facts.guard) and _continue(facts.guard):
        done.append(tr("The guard (pid {pid}) was stopped and was continued.", pid=_pid(facts.guard)))
    if facts.supervisor is not None and (state := _own_state(run_dir, facts.supervisor)):
        if _continue(facts.supervisor):
            what = tr_noop("{supervisor} was stopped and was continued.")
        elif processes.send(facts.supervisor, signal.SIGKILL):
            what = tr_noop("{supervisor} was stopped (state {state}), could not be continued and was killed.")
        else:
            what = tr_noop("{supervisor} is stopped (state {state}), and this user may not signal it.")
        done.append(tr(what, supervisor=_supervisor(facts), state=state))
    return join_sentences(done)


def _continue(process: ProcessId | None) -> bool:
    """Send SIGCONT to a stopped process; return whether it runs again."""
    if process is None or not _state(process) or not processes.send(process, signal.SIGCONT):
        return False
    return wait_until(lambda: not _state(process), CONTINUED_S)


def _own_state(run_dir: Path, process: ProcessId | None) -> str:
    """Return what `_state` does if this is the supervisor or the guard of the run; else the empty string."""
    state = _state(process)
    return state if state and _supervises(_pid(process), run_dir) else ""


def _supervises(pid: int, run_dir: Path) -> bool:
    """Return whether the command line of a process is that of the supervisor or the guard of this run."""
    words = procfs.words(pid)
    try:
        return SUPERVISOR in words[:-1] and run_dir.samefile(words[words.index(SUPERVISOR) + 1])
    except (OSError, ValueError):  # one of the folders is not here
        return False


def _is_of_owner(run_dir: Path, process: ProcessId) -> bool:
    try:
        return procfs.owner(process.pid) == run_dir.stat().st_uid
    except OSError:
        return False


def _state(process: ProcessId | None) -> str:
    """Return the state of a stopped process; the empty string if it is not stopped."""
    stat = None if process is None else procfs.stat(process.pid)
    if process is None or stat is None or stat.created != process.created or stat.state not in procfs.STOPPED:
        return ""
    return stat.state


def _pid(process: ProcessId | None) -> int:
    assert process is not None
    return process.pid


def _supervisor(facts: RunFacts) -> str:
    return tr("The run's supervisor (pid {pid})", pid=_pid(facts.supervisor))
