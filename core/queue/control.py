"""Put runs into the queue, let them wait in line, move, hold, release, cancel and revive them.

Before a run starts, the driver is asked whether its devices are free: no program on them, and their memory back, for
some seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.devices.device import Device, Sample, Survey
from core.devices.nvidia.preflight import TIMEOUT_S
from core.devices.sampler import Sampler
from core.errors import RunError
from core.history.device_use import program_name
from core.language import join_sentences, stored, tr, tr_noop
from core.queue.folder import facts_of, own_line
from core.queue.request import QueueRequest, change_request, hash_of, read_request, write_request
from core.runs import foreign
from core.runs.directory import cannot_write, launch
from core.runs.facts import RunFacts, RunState, state_info
from core.runs.lock import take
from core.runs.owners import owner_of_run
from core.runs.requests import Requests
from core.runs.run import Run
from core.schema.event_kinds import Notice, Queued, StateChange
from core.schema.events import Writer
from core.schema.files import is_regular
from core.schema.paths import CONTROL, EVENTS, LOCK, LOG_FILE, QUEUE_FILE, RESERVE, SUPERVISOR_EVENTS
from core.schema.spec import RunSpec, read_spec
from core.system import processes
from core.system.helper_process import wait_until
from core.system.own_processes import QUEUE, SUPERVISOR, own_command
from core.system.processes import ProcessId, glance
from core.text import size

if TYPE_CHECKING:
    from core.queue.listing import QueuedRun


WAITER = Path(__file__).with_name("waiter.py")
LATE_S = 30.0
"""Seconds after which a run that has not taken its free devices is passed, besides the time to ask their driver."""
WAITING_S = 5.0
"""Seconds to wait for the processes that wait for devices to be there."""
NAP_S = 0.02
CLAIMED = tr_noop("{device} is claimed by a process that has no ticket in the queue, as while a run is cleaned up.")
NO_ANSWER = tr_noop("The driver could not be asked whether the device is free. `trainyard devices` shows its answer.")


def enqueue(spec: RunSpec, runs_root: Path, request: QueueRequest) -> Run:
    """Make a run and let it wait in the queue. Raises `RunError` as `Run.start`."""
    request = replace(request, workload_hash=hash_of(spec), sweep=spec.sweep)

    def wait(run_dir: Path) -> ProcessId | None:
        write_request(run_dir, request)
        _write_state(run_dir, RunState.QUEUED)
        return launch(run_dir, QUEUE, "enter")

    return Run.start(spec, runs_root, wait)


def _write_state(
    run_dir: Path, state: RunState, *, error: str | None = None, queued: bool = False, notice: str = ""
) -> None:
    """Write a state into the events of a run that has no supervisor. `queued`: also which process waits for it."""
    with contextlib.closing(Writer(run_dir / EVENTS / SUPERVISOR_EVENTS)) as events:
        if queued and (me := processes.identify(os.getpid())) is not None:
            events.write(Queued(pid=me.pid, created=me.created, **asdict(processes.here())))
        if state is not facts_of(run_dir).state:
            events.write(StateChange(state=state.value, error=error))
        if notice:
            events.write(Notice(text=notice))


# -- the processes of a waiting run ------------------------------------------------------------------


def wait_in_line(run_dir: Path) -> None:
    """Lock a queued run, put its ticket into the line, and become the small process that waits.

    Returns if another process has the run. Raises `RunError`, `RecordError`, `ValueError` or `OSError`.
    """
    lock = take(run_dir)
    request = read_request(run_dir)
    if lock is None or request is None:
        return
    facts, spec = facts_of(run_dir), read_spec(run_dir)
    if facts.state is not RunState.QUEUED:
        if not _goes_on(facts, request):
            return
        Requests(run_dir).clear()  # of before the reboot
    own = own_line()
    if own.line.is_waiting(run_dir.name):
        raise RunError(tr("A run of the name {run} waits in the queue already.", run=run_dir.name))
    fields = request.ticket(spec)
    ticket = own.line.put(run_dir.name, fields)
    own.line.folders()  # so that it is known whether it is the line of all users
    _write_state(run_dir, RunState.QUEUED, queued=True, notice=own.apart if own.apart not in facts.notices else "")
    for handle in (*lock.descriptors, ticket):
        os.set_inheritable(handle, True)
    state = {
        "line": [own.line.own, own.line.parent, own.line.prefix], "lock": lock.descriptors, "ticket": ticket,
        "ticket_fields": fields, "no_answer": stored(tr(NO_ANSWER)), "claimed": CLAIMED,
        "retry_s": max(1.0, 1.5 * quiet_s()), "late_s": LATE_S + 3 * quiet_s(),
        "start": own_command(SUPERVISOR, str(run_dir), "--claims"),  # the commands that follow the waiting process
        **{action: own_command(QUEUE, str(run_dir), action) for action in ("enter", "leave", "check")},
        "log": LOG_FILE, "request": QUEUE_FILE, "events": f"{EVENTS}/{SUPERVISOR_EVENTS}", "lock_file": LOCK,
        "stop": f"{CONTROL}/stop",
    }
    os.execv(sys.executable, [sys.executable, "-I", "-S", str(WAITER), str(run_dir), json.dumps(state)])  # noqa: S606


def end_unstarted(run_dir: Path, why: str | None = None, state: RunState = RunState.STOPPED) -> None:
    """End a queued run that this process has locked. `why`: a sentence; None if its user has stopped it."""
    if facts_of(run_dir).state is not RunState.QUEUED:
        return
    _write_state(run_dir, state, error=why)
    with contextlib.suppress(OSError):
        (run_dir / EVENTS / RESERVE).unlink(missing_ok=True)


# -- what a user does with the queue -----------------------------------------------------------------


def cancel(run_dir: Path) -> None:
    """Stop a queued run: ask the process that waits, or end the run if there is none. Raises `RunError`."""
    Run(run_dir).request("stop")
    end_unattended(run_dir)


def end_unattended(run_dir: Path) -> None:
    """End a queued run for which no process waits. One that was killed holds the run for a moment more."""
    if (lock := take(run_dir)) is not None:
        try:
            end_unstarted(run_dir)
        finally:
            lock.release()


def hold(run_dir: Path) -> None:
    """Keep a queued run from starting. Raises `ValueError` or `RunError`."""
    _change(run_dir, held=True, why_held="")


def let_go(run_dir: Path, if_changed: str | None = None) -> None:
    """Let a held run wait for its devices again. `if_changed`: see `core.queue.request`.

    Raises `ValueError` or `RunError`.
    """
    more = {} if if_changed is None else {"if_changed": if_changed}
    _change(run_dir, held=False, why_held="", **more)


def start_now(run_dir: Path) -> None:
    """Start a queued run now, also beside other runs on its devices. Raises `ValueError` or `RunError`."""
    _change(run_dir, at_once=True, held=False, why_held="")
    if not own_line().line.is_waiting(run_dir.name):
        _launch(run_dir)


def _change(run_dir: Path, **changes: Any) -> None:  # noqa: ANN401 (fields of different types)
    foreign.refuse(run_dir)
    if facts_of(run_dir).state is not RunState.QUEUED:
        raise ValueError(tr("Run {run} is not in the queue.", run=run_dir.name))
    try:
        change_request(run_dir, **changes)
    except OSError as error:
        raise RunError(cannot_write(run_dir, error)) from error


def move(run_dir: Path, place: int, queued: list[QueuedRun]) -> int:
    """Move a queued run to a place among the user's own, 1 for the first; return its priority then.

    A run that is moved past runs of another priority takes that. Raises `ValueError` or `RunError`.
    """
    others = [each for each in queued if each.run_dir != run_dir]
    own = next((each.request for each in queued if each.run_dir == run_dir), None)
    if own is None:
        raise ValueError(tr("Run {run} is not in the queue.", run=run_dir.name))
    if not 1 <= place <= len(others) + 1:
        raise ValueError(
            tr("There is no place {place} in your queue. Give a number from 1 to {last}.", place=place,
               last=len(others) + 1)
        )
    before = others[place - 2].request if place > 1 else None
    after = others[place - 1].request if place <= len(others) else None
    priority, order = _between(own, before, after)
    if (before is not None and (before.priority, order) == (priority, before.order)) or (
        after is not None and (after.priority, order) == (priority, after.order)
    ):  # after many moves to one place, no number is left between two others
        for number, each in enumerate(others):
            _change(each.run_dir, order=float(number if number < place - 1 else number + 1))
        order = float(place - 1)
    _change(run_dir, priority=priority, order=order)
    return priority


def _between(own: QueueRequest, before: QueueRequest | None, after: QueueRequest | None) -> tuple[int, float]:
    """Return the priority and the order of a run between two others; None for the ends of the line."""
    priority = own.priority if before is None else min(own.priority, before.priority)
    priority = priority if after is None else max(priority, after.priority)
    low = before.order if before is not None and before.priority == priority else None
    high = after.order if after is not None and after.priority == priority else None
    if low is not None and high is not None:
        return priority, (low + high) / 2
    if low is not None:
        return priority, max(low + 1.0, own.order)
    if high is not None:
        return priority, min(high - 1.0, own.order)
    return priority, own.order


def revive(runs_root: Path) -> list[Path]:
    """Let queued runs wait again for which no process waits, and runs that a reboot has ended and that ask for it.

    Returns their folders once they wait, after some seconds in any case. Runs of other users and of other machines are
    passed over. Raises `RunError`.
    """
    from core.history.index import directories  # imported here: a run that is queued does not need it

    line = own_line().line
    found = []
    for run_dir in reversed(directories(runs_root)):
        if not is_regular(run_dir / QUEUE_FILE) or owner_of_run(run_dir) is not None or foreign.is_copy(run_dir):
            continue
        if not line.is_waiting(run_dir.name) and _is_left(run_dir):
            found.append(run_dir)
    # Those that trained go first: a run that waits for the end of one of them finds it in the queue, and not stopped.
    queued = [run_dir for run_dir in found if facts_of(run_dir).state is RunState.QUEUED]
    trained = [run_dir for run_dir in found if run_dir not in queued]
    for run_dirs in (trained, queued):
        for run_dir in run_dirs:
            _launch(run_dir)
        wait_until(lambda: all(line.is_waiting(run_dir.name) for run_dir in run_dirs), WAITING_S)  # noqa: B023 (ends here)
    line.tickets(remove=True)  # what was left of runs that are over
    return trained + queued


def _launch(run_dir: Path) -> None:
    try:
        launch(run_dir, QUEUE, "enter")
    except OSError as error:
        raise RunError(cannot_write(run_dir, error)) from error


def _is_left(run_dir: Path) -> bool:
    """Return whether a run of this machine is queued or was ended by a reboot, and should wait again."""
    facts, here = facts_of(run_dir), processes.here()
    if facts.host is not None and facts.host.host != here.host:
        return False
    if facts.waiter is None and facts.history and time.time() - facts.history[-1][0] < WAITING_S:
        return False  # its process is being started
    if facts.state is not RunState.QUEUED:
        restarted = facts.host is not None and facts.host.boot != here.boot
        try:
            request = read_request(run_dir)
        except ValueError:
            return False
        if not restarted or request is None or not _goes_on(facts, request):
            return False
    lock = take(run_dir)
    if lock is None:
        return False
    lock.release()
    return True


def _goes_on(facts: RunFacts, request: QueueRequest) -> bool:
    """Return whether a run that was started goes on after a reboot, which has killed its supervisor, or stopped it."""
    return request.requeue and (not state_info(facts.state).over or facts.stopped_by_signal)


def until_waiting(run: Run) -> bool:
    """Wait until a run that was queued just now is in the line, so that the next command sees it there.

    Returns whether it is, or has started.
    """
    deadline = time.monotonic() + WAITING_S
    while time.monotonic() < deadline and run.facts.state in {RunState.CREATED, RunState.QUEUED}:
        run.poll()
        if run.facts.waiter is not None:
            return True
        time.sleep(NAP_S)
    return run.facts.waiter is not None


QUIET_S, MAX_QUIET_S = 10.0, 3600.0
VARIABLE = "TRAINYARD_QUEUE_QUIET_S"
"""The environment variable with the seconds for which a device must be free, in place of `QUIET_S`."""
POLL_S = 0.5
STALE_S = 5.0
"""Seconds after which a reading does not say any more that a device is free."""
LARGE_BYTES = 2**30
LARGE_SHARE = 0.05
"""Memory from which a program counts as using a device, the smaller of both: a desktop uses a little of every GPU."""


def quiet_s() -> float:
    """Return for how many seconds a device must be free."""
    try:
        given = float(os.environ[VARIABLE])
    except (KeyError, ValueError):
        return QUIET_S
    return given if 0 <= given <= MAX_QUIET_S else QUIET_S


def busy_devices(device_ids: Sequence[str], free_bytes: int) -> dict[str, str]:
    """Return by device id a sentence why it is not free; returns as soon as one is not. Takes `quiet_s()` at least.

    `free_bytes`: memory that must be free; then other programs may use the rest. 0: no program may use the device.
    """
    with Sampler.for_run(device_ids) as sampler:
        survey = sampler.survey(TIMEOUT_S)
        sampler.set_period(POLL_S, processes_s=POLL_S)
        until = time.monotonic() + quiet_s()
        while True:
            if busy := judge(survey, device_ids, free_bytes) or _unread(survey, device_ids):
                return busy
            if time.monotonic() >= until:
                return {}
            time.sleep(POLL_S / 2)
            survey = sampler.poll()


def judge(survey: Survey, device_ids: Sequence[str], free_bytes: int) -> dict[str, str]:
    """Return by device id a sentence why it is not free, from one reading."""
    devices = {device.id: device for device in survey.devices}
    samples = {sample.device_id: sample for sample in survey.samples}
    busy = {}
    for device_id in device_ids:
        device, sample = devices.get(device_id), samples.get(device_id)
        if device is None:
            gone = tr(
                "Device {device} is not on this machine any more. Check its power and its driver, or queue the run on "
                "another.",
                device=device_id,
            )
            busy[device_id] = join_sentences([tr(survey.banner or ""), gone])
        elif why := device.blocked or (sample.lost if sample is not None else None):
            busy[device_id] = tr("{device} cannot be used: {why}", device=device.label, why=why)
        elif sample is not None and (why := _user(device, sample, free_bytes)):
            busy[device_id] = why
    return busy


def _unread(survey: Survey, device_ids: Sequence[str]) -> dict[str, str]:
    """Return by device id that it gives no readings, as while its driver hangs: it is not known to be free."""
    now = time.monotonic()
    ages = [(device, survey.age_s(device.id, now)) for device in survey.devices if device.id in device_ids]
    return {
        device.id: tr(
            "{device} has given no reading for {seconds:g} s, so it is not known to be free. `trainyard devices` shows "
            "what its driver says.",
            device=device.label,
            seconds=STALE_S,
        )
        for device, age_s in ages
        if age_s is None or age_s > STALE_S
    }


def _user(device: Device, sample: Sample, free_bytes: int) -> str | None:
    total, used = device.memory_total_bytes, sample.memory_used_bytes
    if free_bytes:
        if total is None or used is None or total - used >= free_bytes:
            return None
        return tr("{device} has {free} of free memory, and the run needs {needed}.", device=device.label,
                  free=size(max(0, total - used)), needed=size(free_bytes))
    large = LARGE_BYTES if total is None else min(LARGE_BYTES, LARGE_SHARE * total)
    listed = sorted(sample.processes or (), key=lambda each: each.memory_used_bytes or 0, reverse=True)
    unexplained = (used or 0) - sum(each.memory_used_bytes or 0 for each in listed)
    known = listed[0] if listed and (listed[0].memory_used_bytes or 0) >= large else None
    unknown = next((each for each in listed if each.memory_used_bytes is None), None)
    if known is not None or (unknown is not None and unexplained >= large):
        process = known or unknown
        assert process is not None
        seen = replace(glance(process.pid), memory_used_bytes=process.memory_used_bytes)
        return tr("{device} is used by {program} (pid {pid}), which is no run of this queue.", device=device.label,
                  program=program_name(seen), pid=process.pid)
    if unexplained >= large and not device.shared_memory:
        return tr("{used} of {device}'s memory are in use, by no process that the driver lists.", used=size(used),
                  device=device.label)
    return None
