"""One detached process per run: owns the workers, writes the life-cycle, samples the devices.

    python -m core.supervisor RUN_DIR [--resume]

It imports no framework and no Qt. When it dies, its workers die with it (`core.worker.deadman`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from core.catalog.strategies import strategy_of
from core.errors import RunError
from core.launchers import local, ranks
from core.runs.facts import RunFacts, fold
from core.runs.requests import Requests
from core.runs.states import TRANSITIONS, RunState, state_info
from core.schema.events import RecordError, Writer
from core.schema.paths import EVENTS, RENDEZVOUS, RESERVE, SUPERVISOR_EVENTS
from core.schema.settings import escalation_steps
from core.supervisor.device_log import DeviceLog
from core.supervisor.stop_escalation import StopEscalation
from core.supervisor.workers import WorkerGroup
from core.system import processes

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from core.devices.device import Device, Sample
    from core.devices.sampler import Sampler
    from core.schema.rank import RankAssignment
    from core.schema.spec import RunSpec
    from core.supervisor.jobs import Job
    from core.supervisor.monitor import RunMonitor
    from core.supervisor.workers import Worker

TICK_S = 0.25
"""Between two looks while it trains: each takes time from the cores that train. The end of a worker cuts it short."""
BUSY_TICK_S = 0.1
"""The same while it starts or stops."""
STRAGGLER_GRACE_S = 10.0
KILLED_S = 2.0  # what was sent KILL is gone after so long, or not soon
NO_PROC = (
    "No process can be seen here, since nothing is mounted on /proc: what a run leaves behind could not be ended. "
    "Mount it (mount -t proc proc /proc, as root), then start the run again."
)


class Supervisor:
    """Takes one run from STARTING to its end, or goes on with it after what `facts` tell."""

    def __init__(self, run_dir: Path, spec: RunSpec, sampler: Sampler, job: Job, facts: RunFacts | None = None) -> None:
        self._run_dir, self._spec, self._job = run_dir, spec, job
        self._events = Writer(run_dir / EVENTS / SUPERVISOR_EVENTS)
        self._readings = DeviceLog(run_dir, sampler, spec.devices)
        self._requests = Requests(run_dir)
        self._workers = WorkerGroup(run_dir)
        self._facts = facts or RunFacts()
        self._oversight: RunMonitor | None = None
        self._has_stepped = False
        self._done_since = time.monotonic()
        self._ladder = StopEscalation(escalation_steps(spec.ladder), send=self._send, record=self._record_rung)

    def run(self) -> None:
        """Supervise to the end. Whatever goes wrong is the run's recorded end; nothing of the run is left."""
        try:
            self._begin()
            self._start()
            self._train()
            self._conclude()
        except (RunError, RecordError) as error:
            self._abort(str(error), None)
        except Exception as error:  # noqa: BLE001 (the outer border)
            from traceback import format_exc  # now: a run need not wait for what it hardly ever needs

            self._abort(f"Trainyard's supervisor failed: {error!r}. Please report this.", format_exc())
        finally:
            self._tidy()

    def stop(self) -> None:
        """Treat it as if a stop had been asked for: the user logs out, say, or the machine is being shut down."""
        self._requests.tell_to_stop()

    @property
    def leaves_processes(self) -> bool:
        """Whether processes of the run were left that a signal may still end."""
        return self._oversight is not None and self._oversight.leaves_processes

    # -- start -----------------------------------------------------------------------------------

    def _begin(self) -> None:
        me = processes.identify(os.getpid())
        if me is None:
            raise RunError(NO_PROC)
        self._tell("supervisor", pid=me.pid, created=me.created, **asdict(processes.here()))
        self._go(RunState.STARTING)

    def _start(self) -> None:
        devices = self._readings.find()
        for device in devices:
            self._events.write(
                "device", id=device.id, device_kind=device.kind, label=device.label, name=device.name,
                memory_total_bytes=device.memory_total_bytes, pci_bus_id=device.pci_bus_id, cores=list(device.cores),
            )  # fmt: skip
        placements = ranks.assign_ranks(devices, strategy_of(self._spec))
        names = local.cuda_names(placements, self._spec.cuda_ids, self._spec.python)
        local.check_sight(self._spec, self._run_dir.name, placements, names)
        self._job.prepare(names)
        before = self._readings.poll()  # before the first worker, and not from before the pre-flight
        try:
            for placement in placements:
                self._add(placement)
            self._readings.watch(self._workers.pids_by_device())
        finally:
            self._oversee(devices, before)  # also those who were started before one who could not be

    def _add(self, placement: RankAssignment) -> None:
        member = self._workers.add(placement, self._launch)
        identity = member.identity
        self._events.write(
            "worker", rank=placement.rank, role=placement.role, pid=member.process.pid,
            created=identity.created if identity else 0.0, devices=list(placement.own),
        )  # fmt: skip

    def _oversee(self, devices: Sequence[Device], before: Sequence[Sample]) -> None:
        from core.supervisor.monitor import RunMonitor  # now: a user's program need not wait until it is loaded

        self._oversight = RunMonitor(
            self._run_dir.name, self._spec, devices, before, readings=self._readings, write=self._tell
        )

    def _launch(self, placement: RankAssignment) -> subprocess.Popen[bytes]:
        try:
            return self._job.launch(placement)
        except OSError as error:
            raise RunError(_cannot_launch(self._spec, error)) from error

    # -- while it runs ---------------------------------------------------------------------------

    def _train(self) -> None:
        """Until the last worker has ended."""
        assert self._oversight is not None
        while self._workers.working:
            self._workers.wait(TICK_S if self._facts.state is RunState.RUNNING else BUSY_TICK_S)
            if not self._run_dir.is_dir():
                raise RunError(f"The run's folder {self._run_dir} was removed while it trained.")
            self._look_at_workers()
            self._look_at_requests()
            self._look_for_stragglers()
            self._workers.end_servers(self._send)
            self._ladder.tick()
            self._oversight.look(self._facts.step if self._has_stepped else None, trains=self._trains)

    def _look_at_workers(self) -> None:
        ended = self._workers.poll()  # first, so that what they said before their end is read
        events = [*self._workers.read(), *self._job.read()]
        if (trouble := self._job.trouble()) is not None:
            self._tell("notice", text=trouble)
        self._facts = fold(self._facts, [event for event in events if event["kind"] in {"plan", "rewind", "metrics"}])
        self._has_stepped |= any(event["kind"] == "metrics" for event in events)
        self._record_exits(ended)
        if self._facts.state is RunState.STARTING and self._job.has_begun(events):
            self._go(RunState.RUNNING)
        if any(member.failed for member in self._workers.members) and self._workers.working:
            # The others would wait for the one that failed, for ever under collectives.
            self._ladder.begin("SIGTERM")

    def _record_exits(self, ended: list[Worker]) -> None:
        for member in ended:
            self._events.write("worker_exit", rank=member.placement.rank, exit_code=member.exit_code)

    def _have_ended(self) -> bool:
        """Whether all workers have, so far as they can; those that have ended meanwhile are recorded."""
        self._record_exits(self._workers.poll())
        return not self._workers.working

    @property
    def _trains(self) -> bool:
        return self._facts.state is RunState.RUNNING and not all(member.done for member in self._workers.trainers)

    def _look_for_stragglers(self) -> None:
        """Workers whose training is done but who do not end: a thread of the recipe's keeps them, say."""
        if not all(member.done for member in self._workers.trainers):
            self._done_since = time.monotonic()
        elif time.monotonic() - self._done_since > STRAGGLER_GRACE_S:
            self._done_since = float("inf")
            pids = ", ".join(str(member.process.pid) for member in self._workers.working if not member.serves)
            self._events.write("notice", text=f"Training is done but its processes did not end, and are ended: {pids}.")
            self._ladder.begin("SIGTERM")

    def _look_at_requests(self) -> None:
        if self._requests.stop and self._facts.state in {RunState.STARTING, RunState.RUNNING}:
            self._requests.pass_on_the_stop()
            self._go(RunState.STOPPING)
            # A worker that is still loading does not look at requests yet: it would use up its grace for nothing.
            self._ladder.begin("asked" if self._facts.plan else "SIGINT")
        for why in self._requests.refuse(self._spec):
            self._tell("notice", text=why)
        if state_info(self._facts.state).can_pause:
            self._requests.record(lambda asked: self._events.write("request", asked=asked))
        if self._requests.has("force"):
            if self._facts.state is RunState.STOPPING:
                self._ladder.force()
            else:  # there is nothing to force yet; kept, it would take a later stop's graces away
                self._requests.take_back("force")

    def _send(self, number: signal.Signals) -> None:
        """Signal the workers. What KILL ends with them is named in the end like any other that had to be ended."""
        if number is signal.SIGKILL and self._oversight is not None:
            self._oversight.adopt(self._workers.with_them(processes.tagged(self._run_dir.name)))
        self._workers.send(number)

    def _record_rung(self, name: str, grace_s: float | None) -> None:
        self._events.write("rung", name=name, grace_s=grace_s)

    # -- the end ---------------------------------------------------------------------------------

    def _conclude(self) -> None:
        self._look_at_workers()
        stopped = self._requests.stop  # once more: a stop in the last moment is a stop
        self._requests.take_back("force")  # of the stop; from now on it means: do not wait for the memory
        self._go(RunState.RELEASING)
        self._release()
        if (trouble := self._job.settle()) is not None:
            self._events.write("notice", text=trouble)
        culprit = self._workers.culprit()
        if culprit is not None and not (stopped and culprit.ended_by_shutdown):
            self._fail(*self._job.failure(culprit))
        elif stopped:
            self._go(RunState.STOPPED)
        elif self._workers.paused:
            self._go(RunState.PAUSED)
        else:
            self._go(RunState.FINISHED)

    def _release(self) -> None:
        assert self._oversight is not None
        workers = [member.identity for member in self._workers.members if member.identity]
        self._oversight.adopt(self._workers.left)
        self._oversight.release(workers, is_hurried=lambda: self._requests.hurry, meanwhile=self._have_ended)

    def _abort(self, sentence: str, trace: str | None) -> None:
        """End everything at once and write the end down, as far as the disk lets us."""
        self._kill_all()
        if state_info(self._facts.state).over:
            print(sentence, file=sys.stderr)  # noqa: T201 (into log.txt, where `Run.resume` looks)
            return  # the end was reached, or a resumed leg never began: only the disk did not take it
        try:
            _wait_until(self._have_ended, KILLED_S)
            if self._oversight is not None and self._workers.members:
                self._release_after_all(self._oversight)
            self._fail(sentence, trace)
        except RecordError as error:
            print(f"{sentence} {error}", file=sys.stderr)  # noqa: T201 (into log.txt: readers find the run LOST)

    def _kill_all(self) -> None:
        found = processes.tagged(self._run_dir.name)
        if self._oversight is not None:
            workers = {member.process.pid for member in self._workers.members}
            self._oversight.adopt(each for each in found if each.pid not in workers)
        self._workers.send(signal.SIGKILL)
        processes.end_tagged(self._run_dir.name, signal.SIGKILL)

    def _release_after_all(self, oversight: RunMonitor) -> None:
        """The same for a run that cannot go on; what went wrong may go wrong here, too, and is told once."""
        if self._facts.state is not RunState.RELEASING:
            self._go(RunState.RELEASING)
        oversight.abort()
        with contextlib.suppress(Exception):
            self._release()

    def _fail(self, sentence: str, trace: str | None) -> None:
        self._go(RunState.FAILED, error=sentence, traceback=trace)

    def _go(self, state: RunState, **fields: object) -> None:
        assert (self._facts.state, state) in TRANSITIONS, (self._facts.state, state)
        self._tell("state", state=state.value, **{name: value for name, value in fields.items() if value})

    def _tell(self, kind: str, **fields: object) -> None:
        """Write an event, and know it."""
        self._facts = fold(self._facts, [{"t": time.time(), "kind": kind, **fields}])
        self._events.write(kind, **fields)

    def _tidy(self) -> None:
        self._workers.close()
        self._job.close()
        _wait_until(lambda: not self._workers.poll() and not self._workers.working, KILLED_S)
        for name in (f"{EVENTS}/{RESERVE}", RENDEZVOUS):
            (self._run_dir / name).unlink(missing_ok=True)
        self._readings.close()
        self._events.close()


def _cannot_launch(spec: RunSpec, error: OSError) -> str:
    return (
        f"The workers could not be started: {error.strerror}. "
        f"Check the interpreter {spec.python} and the working folder {spec.working_dir}."
    )


def _wait_until(condition: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
