"""Entry point of a supervisor process.

``python -m core.supervisor RUN_DIR [--resume [DEVICES STRATEGY] | --claims STATE]``
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from core.companions import companions_of, meeting_signs
from core.devices.device import devices_here
from core.devices.sampler import Sampler
from core.errors import RunError
from core.queue.claims import Claims
from core.runs.facts import RunFacts
from core.runs.lock import Lock
from core.schema.events import RecordError
from core.schema.spec import RunSpec, read_spec
from core.supervisor.claim import claim, claim_again, claim_queued, clear
from core.supervisor.companion import Companion
from core.supervisor.guard import fork_supervisor
from core.supervisor.jobs import job
from core.supervisor.supervisor import Supervisor


def _claim_run(run_dir: Path, claims: Claims | None, *, resumes: bool) -> tuple[Lock, RunFacts]:
    """Lock a run, and clear away what an earlier supervisor has left."""
    if claims is not None:
        claimed = claim_queued(run_dir, claims.lock_descriptors)
    elif resumes:
        claimed = claim_again(run_dir)
    else:
        return claim(run_dir), RunFacts()
    if claimed[1].starts:
        clear(run_dir)
    return claimed


def _spec(run_dir: Path, options: Sequence[str]) -> RunSpec:
    """Return the spec of a run, with the devices and the strategy that it is resumed with, if they are given."""
    spec = read_spec(run_dir, changed=False)
    return replace(spec, devices=tuple(options[1].split(",")), strategy=options[2]) if options[1:] else spec


def _lost(companions: Sequence[Companion]) -> None:
    for each in companions:
        with contextlib.suppress(Exception):  # the guard has more to do
            each.lost()


def main() -> int:
    """Supervise the run whose directory is the first argument; resume it with `--resume`.

    `--claims`: the run was queued, and what follows is what its waiting process hands over.
    """
    users_umask = os.umask(0o077)  # for the files of the run; a script gets the user's own umask
    run_dir, options = Path(sys.argv[1]), sys.argv[2:]
    arrived: list[int] = []  # signals of a shutdown, before the supervisor can handle them
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: arrived.append(number))
    # The shell that started this process in the background ignores both signals. Handlers replace SIG_IGN, which the
    # workers would inherit, and with it they would ignore the SIGINT of a stop.
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # a parent may have blocked it; workers inherit this
    guard = claims = None
    try:
        claims = Claims.take_over(run_dir, options[1]) if options[:1] == ["--claims"] else None
        lock, facts = _claim_run(run_dir, claims, resumes="--resume" in options)
        spec = _spec(run_dir, options) if claims is None else claims.spec(run_dir)
        here = devices_here(spec.devices)
        claims = claims or Claims.take(run_dir, replace(spec, devices=here))
        companions = companions_of(run_dir, spec, claims)
        # Only the child returns and goes on as the supervisor; the parent stays behind as its guard.
        guard = fork_supervisor(run_dir, close_fds=lock.descriptors, lost=lambda: _lost(companions))
        for each in companions:
            each.begin((*lock.descriptors, *(fd for other in companions for fd in other.descriptors), guard.pipe))
        supervisor = Supervisor(
            run_dir, spec, Sampler.for_run(here),
            job(spec, run_dir, umask=users_umask, signs=meeting_signs), facts, guard=guard, companions=companions,
        )
    except (RunError, RecordError, ValueError, OSError) as error:
        print(error, file=sys.stderr)  # noqa: T201 (into log.txt)
        if claims is not None:
            claims.give_up(run_dir, str(error))
        if guard is not None:
            guard.dismiss()  # nothing was started, and the process that started this one waits for its end
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: supervisor.stop())
    if arrived:
        supervisor.stop()
    supervisor.run()
    claims.over(supervisor.facts)  # if its end could not be recorded
    if supervisor.leaves_processes:
        guard.set_off()
    else:
        guard.dismiss()
    return 0


if __name__ == "__main__":
    sys.exit(main())
