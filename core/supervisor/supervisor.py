"""One detached process per run: starts and ends its workers, writes its events, samples its devices.

`python -m core.supervisor` starts it (see `core.supervisor.__main__`). It imports no framework and no Qt. If it dies,
its guard kills what is left of the run (`core.supervisor.guard`); workers of recipes also end by themselves
(`core.worker.boot`).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from core.catalog.strategies import strategy_of
from core.devices.device import Device, Sample, devices_here
from core.devices.sampler import Sampler
from core.diagnosis.evidence import GROUP_KILLED, KERNEL_KILLED
from core.errors import RunError
from core.language import join_sentences, tr, tr_noop
from core.launchers import local, p2p
from core.runs.facts import TRANSITIONS, RunFacts, RunState, state_info
from core.runs.fold import fold
from core.runs.requests import Requests
from core.schema import event_kinds as kinds
from core.schema.events import Event, RecordError, Writer
from core.schema.files import open_folder
from core.schema.paths import EVENTS, RENDEZVOUS, RESERVE, SUPERVISOR_EVENTS
from core.schema.settings import escalation_steps
from core.schema.spec import RankAssignment, RunSpec, read_spec, write_spec
from core.supervisor.software_record import SoftwareRecord
from core.supervisor.watches import DeviceLog, DiskWatch
from core.supervisor.workers import StopEscalation, Worker, WorkerGroup
from core.system import processes
from core.system.helper_process import wait_until
from core.system.procfs import memory_groups, oom_kills, reached_limit
from core.system.terminate import RunProcesses
from core.text import join_names, size

if TYPE_CHECKING:
    from core.supervisor.companion import Companion
    from core.supervisor.guard import Guard
    from core.supervisor.jobs import Job
    from core.supervisor.monitor import RunMonitor

TICK_S = 0.25
"""Seconds between two polls while training: each poll takes time from the training. A worker's exit cuts it short."""
BUSY_TICK_S = 0.1
"""Seconds between two polls while starting or stopping."""
COUNTED = frozenset({kinds.Plan.kind, kinds.Rewind.kind, kinds.Metrics.kind, kinds.Checkpoint.kind})
"""What the facts of the supervisor take from the events of workers."""
SERVER_STEPS = (("SIGTERM", signal.SIGTERM, 3.0), ("SIGKILL", signal.SIGKILL, None))
"""How workers that serve others are stopped once no others are left; see `escalation_steps`."""
KILLED = re.compile(r"SIGKILL|killed by signal: Killed|exit ?code\s*:?\s*-9\b")
"""The end of a worker, or of a process that it had started, by SIGKILL."""
KILLED_S = 2.0
"""Seconds to wait for processes after SIGKILL: they are gone by then, or not soon."""
NO_PROC = tr_noop(
    "No process can be seen here, since nothing is mounted on /proc: a run's processes could not be terminated. "
    "Mount it (mount -t proc proc /proc, as root), then start the run again."
)


class Supervisor:
    """Takes one run from STARTING to its end. `facts`: what is known of a run that is resumed."""

    def __init__(
        self, run_dir: Path, spec: RunSpec, sampler: Sampler, job: Job, facts: RunFacts | None = None, *,
        guard: Guard | None = None, companions: Sequence[Companion] = (),
    ) -> None:
        self._run_dir, self._spec, self._job, self._companions = run_dir, spec, job, companions
        self._here = devices_here(spec.devices)
        self._folder = open_folder(run_dir)
        """The run's folder, which stays reachable when it is renamed."""
        self._events = Writer(run_dir / EVENTS / SUPERVISOR_EVENTS)
        self._readings = DeviceLog(run_dir, sampler, self._here)
        self._requests = Requests(run_dir)
        self._guard = guard.process if guard is not None else None
        adopting = self._guard if guard is not None and guard.adopts else None
        self._processes = RunProcesses(run_id=run_dir.name, supervisor=os.getpid(), guard=adopting)
        self._workers = WorkerGroup(run_dir)
        self._facts = facts or RunFacts()
        self._monitor: RunMonitor | None = None
        self._software = SoftwareRecord(self._events.write_if_room)
        self._oom_kills, self._groups = oom_kills(), memory_groups()
        self._failure = ""
        """Why the run has failed although its processes end as they were asked: a sentence."""
        self._has_stepped = False
        self._measured_at = float("-inf")
        self._escalation = StopEscalation(
            escalation_steps(spec.stop_timeouts),
            send=self._send,
            record=lambda name, grace_s: self._events.write(kinds.StopStep(name=name, grace_s=grace_s)),
            is_delayed=lambda: any(each.delays_force() for each in companions),
        )
        self._server_escalation = StopEscalation(SERVER_STEPS, send=self._send)

    def run(self) -> None:
        """Supervise the run to its end. An error is recorded as the end of the run; its processes are terminated."""
        try:
            self._begin()
            self._start()
            self._train()
            self._conclude()
        except RecordError as error:
            self._abort(join_sentences([str(error), DiskWatch(self._run_dir).poll()]), None)
        except RunError as error:
            self._abort(str(error), None)
        except Exception as error:  # noqa: BLE001 (the outer border)
            from traceback import format_exc  # imported here, since it is hardly ever needed

            text = tr("Trainyard's supervisor failed: {error}. Please report this.", error=repr(error))
            self._abort(text, format_exc())
        finally:
            for each in self._companions:
                each.ended()
            self._tidy()

    def stop(self) -> None:
        """Stop the run as if it had been requested: the user logs out, or the machine shuts down."""
        self._requests.stop_by_signal()

    @property
    def facts(self) -> RunFacts:
        return self._facts

    @property
    def leaves_processes(self) -> bool:
        """Whether processes of the run are left that a signal may still end."""
        return self._monitor is not None and self._monitor.leaves_processes

    # -- start -----------------------------------------------------------------------------------

    def _begin(self) -> None:
        me = processes.identify(os.getpid())
        if me is None:
            raise RunError(tr(NO_PROC))
        guard = None if self._guard is None else asdict(self._guard)
        self._record(kinds.SupervisorStart(pid=me.pid, created=me.created, **asdict(processes.here()), guard=guard))
        self._enter(RunState.STARTING)

    def _start(self) -> None:
        here = self._readings.find()
        devices = list(here)
        for each in self._companions:
            devices += each.find(devices, self._record, resumes=self._facts.starts > 1)
        for device in devices:
            self._events.write(
                kinds.RunDevice(
                    id=device.id, device_kind=device.kind, label=device.label, name=device.name, cores=device.cores,
                    memory_total_bytes=device.memory_total_bytes, pci_bus_id=device.pci_bus_id,
                )
            )
        self._note_move(devices)
        assignments: Sequence[RankAssignment] = local.assign_ranks(devices, strategy_of(self._spec))
        for each in self._companions:
            assignments = each.assign(assignments)
        names = local.cuda_names(assignments, self._spec.cuda_ids, self._spec.python)
        local.check_visible_devices(self._spec, self._run_dir.name, assignments, names)
        if any(map(local.visible_ids, assignments)) and p2p.variables():
            self._record(kinds.Notice(text=p2p.IS_OFF))
        processes_to_start = self._job.prepare(assignments, names)
        before = self._readings.poll()  # before the first worker, and not from before the pre-flight
        try:
            for each in self._companions:
                each.start(self._workers, self._job.spec_of_parts())
            for assignment in processes_to_start:
                self._launch(assignment)
            self._readings.watch(self._workers.pids_by_device())
            self._software.start(self._spec)  # after the workers, which it must not delay
        finally:
            # Also for workers that started before a worker that could not.
            self._start_monitor(here, before, has_steps=any(each.rank == 0 for each in assignments))

    def _note_move(self, devices: Sequence[Device]) -> None:
        """Store and record other devices than before, as a resume or the queue chose them, or another strategy."""
        before, now = read_spec(self._run_dir, changed=False), self._spec
        if (before.devices, before.strategy) != (now.devices, now.strategy):
            write_spec(self._run_dir, now)
        used = tuple(self._facts.devices)
        if not used or ({*used}, before.strategy) == ({*now.devices}, now.strategy):
            return
        labels = {name: str(each.get("label") or name) for name, each in self._facts.devices.items()}
        labels |= {each.id: each.label for each in devices}
        where, former = (
            tr("{devices} ({strategy})", devices=join_names([labels.get(each, each) for each in ids]), strategy=name)
            for ids, name in ((now.devices, now.strategy), (used, before.strategy))
        )
        text = tr("The run was resumed on {devices}. Before, it trained on {former}.", devices=where, former=former)
        self._record(kinds.Moved(devices=now.devices, where=where, text=text))

    def _launch(self, assignment: RankAssignment) -> None:
        tail = self._workers.tail(assignment)
        try:
            process = self._job.launch(assignment)
        except OSError as error:
            raise RunError(
                tr(
                    "The workers could not be started: {strerror}. "
                    "Check the interpreter {python} and the working folder {working_dir}.",
                    strerror=error.strerror, python=self._spec.python, working_dir=self._spec.working_dir,
                )
            ) from error
        identity = processes.identify(process.pid)
        self._workers.add(Worker(assignment, process, identity, tail))
        self._events.write(
            kinds.WorkerStart(
                rank=assignment.rank, role=assignment.role, pid=process.pid,
                created=identity.created if identity else 0.0, devices=assignment.own,
            )
        )

    def _start_monitor(self, devices: Sequence[Device], before: Sequence[Sample], *, has_steps: bool) -> None:
        from core.supervisor.monitor import RunMonitor  # here, so that a user's program does not wait for it

        self._monitor = RunMonitor(
            self._processes, replace(self._spec, devices=self._here), devices, before, readings=self._readings,
            write=self._record, has_steps=has_steps,
        )

    # -- while it runs ---------------------------------------------------------------------------

    def _train(self) -> None:
        """Poll until the last worker has exited."""
        assert self._monitor is not None
        while self._workers.working:
            self._workers.wait(TICK_S if self._facts.state is RunState.RUNNING else BUSY_TICK_S)
            if not self._run_dir.is_dir():
                raise RunError(_folder_is_gone(self._run_dir, self._folder))
            self._poll_workers()
            self._software.poll()
            self._answer_requests()
            self._stop_stragglers()
            trainers = self._workers.trainers
            if trainers and all(worker.exit_code is not None for worker in trainers):
                self._server_escalation.begin()
            self._server_escalation.tick()
            self._escalation.tick(self._measured_at)
            self._monitor.poll(self._facts.step if self._has_stepped else None, trains=self._trains)
            for each in self._companions:
                each.watch(self._readings.survey, self._facts)

    def _poll_companions(self) -> None:
        for each in self._companions:
            if (why := each.poll(self._facts)) and self._workers.working:
                self._record(kinds.Notice(text=why))
                self._requests.ask_stop()

    def _poll_workers(self) -> None:
        self._poll_companions()
        ended = self._workers.poll()  # first, so that the last events of those that have exited are read
        events = self._workers.read()
        for each in self._companions:
            events += each.read()
        for trouble in filter(None, (self._job.trouble(), *(each.trouble() for each in self._companions))):
            self._record(kinds.Notice(text=trouble))
        self._look_for_nan(events)
        self._facts = fold(self._facts, [event for event in events if event["kind"] in COUNTED])
        if any(event["kind"] == kinds.Metrics.kind for event in events):
            self._has_stepped, self._measured_at = True, time.monotonic()
        self._record_exits(ended)
        if self._facts.state is RunState.STARTING and self._job.has_begun(events):
            self._enter(RunState.RUNNING)
        if any(worker.failed for worker in self._workers.members) and self._workers.working:
            # The others would wait for the one that failed, under collectives for ever.
            self._escalation.begin("SIGTERM")

    def _look_for_nan(self, events: Sequence[Event]) -> None:
        """Tell that the loss has ceased to be a number, or stop a script for it; a recipe's worker ends by itself."""
        for found in kinds.read_all(kinds.NotFinite, events):
            if self._spec.script is not None and self._spec.training.stop_on_nan:
                self._failure = found.text
                self._requests.ask_stop()
            else:
                for each in self._companions:
                    each.not_finite()

    def _record_exits(self, ended: list[Worker]) -> None:
        for worker in ended:
            if worker.pid is not None:  # those of another machine are recorded by its supervisor
                assert worker.exit_code is not None
                rank, code = worker.assignment.rank, worker.exit_code
                self._events.write(kinds.WorkerExit(rank=rank, exit_code=code, signalled=worker.signalled))

    def _have_ended(self) -> bool:
        """Record new exits; return True if no worker is still running, stuck ones excepted."""
        with contextlib.suppress(RunError):  # a machine that is lost has no worker to wait for
            self._poll_companions()
        self._record_exits(self._workers.poll())
        self._software.poll()
        return not self._workers.working

    @property
    def _trains(self) -> bool:
        return self._facts.state is RunState.RUNNING and not self._workers.have_trained

    def _stop_stragglers(self) -> None:
        if stragglers := self._workers.stragglers():
            pids = ", ".join(str(worker.pid or worker.name) for worker in stragglers)
            text = tr(
                "Training is done, but these processes did not exit and are being terminated: pid {pids}.", pids=pids
            )
            self._events.write(kinds.Notice(text=text))
            self._escalation.begin("SIGTERM")

    def _answer_requests(self) -> None:
        if self._requests.stop and self._facts.state in {RunState.STARTING, RunState.RUNNING}:
            if not self._facts.plan:
                self._poll_workers()  # it may have come since, and be why the stop was requested
            self._requests.write_stop()
            self._enter(RunState.STOPPING)
            # A worker that is still loading does not read requests yet, and one that serves never does.
            first = "SIGTERM" if not self._workers.trainers else "asked" if self._facts.plan else "SIGINT"
            self._escalation.begin(first)
        for why in self._requests.refuse(self._spec):
            self._record(kinds.Notice(text=why))
        if state_info(self._facts.state).can_pause:
            self._requests.record(lambda asked: self._events.write(kinds.Requested(asked=asked)))
        if self._requests.has("force"):
            if self._facts.state is RunState.STOPPING:
                self._escalation.force()
            else:  # there is nothing to force yet, and a later stop must have its timeouts
                self._requests.take_back("force")

    def _send(self, number: signal.Signals) -> None:
        """Signal the workers. Processes that SIGKILL ends together with a worker are tracked, and named at the end."""
        if number is signal.SIGKILL and self._monitor is not None:
            self._monitor.memory.track_killed(self._workers.in_their_groups(self._processes.find()))
        self._workers.send(number)

    # -- the end ---------------------------------------------------------------------------------

    def _conclude(self) -> None:
        self._poll_workers()
        stopped = self._requests.stop  # read again: the request may have come in the last moment
        self._requests.take_back("force")  # it was meant for the stop; from now on it means not to wait for memory
        self._enter(RunState.RELEASING)
        self._release()
        self._software.poll()
        for text in filter(None, (*(each.settle() for each in self._companions), self._job.settle())):
            self._events.write(kinds.Notice(text=text))
        self._look_for_nan([event for each in self._companions for event in each.read()])  # in the last output
        found = self._job.cause(self._workers.culprits(), self._facts)
        if found is not None and not (stopped and found[0].ended_by_shutdown):
            culprit, sentence, trace = found
            group = reached_limit(self._groups, memory_groups())
            killed = culprit.exit_code == -signal.SIGKILL and self._oom_kills is not None
            if group is not None and (culprit.exit_code == -signal.SIGKILL or KILLED.search(f"{sentence} {trace}")):
                why = tr(GROUP_KILLED, size=size(group.limit_bytes), file=group.file)
                sentence = join_sentences([sentence, why])
            elif killed and (oom_kills() or 0) > (self._oom_kills or 0):
                sentence = join_sentences([sentence, tr(KERNEL_KILLED)])
            self._fail(sentence, trace)
        elif self._failure:
            self._fail(self._failure, None)
        elif stopped:
            self._enter(RunState.STOPPED, by_signal=self._requests.stopped_by_signal)
        elif self._workers.paused:
            self._enter(RunState.PAUSED)
        else:
            assert self._monitor is not None
            remark, trace = self._job.remark()
            for text in filter(None, (self._monitor.idle.sentence(), remark)):  # what took no part, or went wrong
                self._events.write(kinds.Notice(text=text))
            self._enter(RunState.FINISHED, traceback=trace)

    def _release(self) -> None:
        assert self._monitor is not None
        workers = [worker.identity for worker in self._workers.members if worker.identity]
        self._monitor.memory.track_killed(self._workers.alive)
        self._monitor.release(workers, is_hurried=lambda: self._requests.hurry, meanwhile=self._have_ended)
        for each in self._companions:
            each.finish(lambda: self._requests.hurry)

    def _abort(self, sentence: str, trace: str | None) -> None:
        """Kill all processes of the run, and record its end as far as the disk allows."""
        self._kill_all()
        if state_info(self._facts.state).over:
            print(sentence, file=sys.stderr)  # noqa: T201 (into log.txt, where `Run.resume` looks)
            return  # the run had ended, or was not resumed yet: only an event could not be written
        try:
            wait_until(self._have_ended, KILLED_S)
            if self._monitor is not None and self._workers.members:
                if self._facts.state is not RunState.RELEASING:
                    self._enter(RunState.RELEASING)
                self._monitor.abort()
                with contextlib.suppress(Exception):  # what broke the run may raise here again
                    self._release()
            self._fail(sentence, trace)
        except RecordError as error:
            print(f"{sentence} {error}", file=sys.stderr)  # noqa: T201 (into log.txt: readers find the run LOST)

    def _kill_all(self) -> None:
        found = self._processes.find()
        if self._monitor is not None:
            workers = {worker.pid for worker in self._workers.members}
            self._monitor.memory.track_killed(each for each in found if each.pid not in workers)
        self._workers.send(signal.SIGKILL)
        for process in self._processes.find():
            self._processes.send(process, signal.SIGKILL)

    def _fail(self, sentence: str, trace: str | None) -> None:
        if blame := next(filter(None, (each.blame() for each in self._companions)), ""):
            self._enter(RunState.HEAD_LOST, error=join_sentences(dict.fromkeys([blame, sentence])))
        else:
            self._enter(RunState.FAILED, error=sentence, traceback=trace)

    def _enter(
        self, state: RunState, *, error: str | None = None, traceback: str | None = None, by_signal: bool = False
    ) -> None:
        assert (self._facts.state, state) in TRANSITIONS, (self._facts.state, state)
        self._record(kinds.StateChange(state=state.value, error=error, traceback=traceback, by_signal=by_signal))

    def _record(self, record: kinds.Record) -> None:
        """Update the facts with an event, and write it. Companions hear of the end of the run in between."""
        self._facts = fold(self._facts, [record.event()])
        if isinstance(record, kinds.StateChange) and state_info(self._facts.state).over:
            for each in self._companions:
                each.over(self._facts)
        self._events.write(record)

    def _tidy(self) -> None:
        self._workers.close()
        for each in self._companions:
            each.close()
        self._software.close()
        self._job.close()
        wait_until(lambda: not self._workers.poll() and not self._workers.working, KILLED_S)
        for name in (f"{EVENTS}/{RESERVE}", RENDEZVOUS):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._folder)
        self._readings.close()
        self._events.close()
        os.close(self._folder)


def _folder_is_gone(run_dir: Path, folder: int) -> str:
    """Return why there is nothing at the path of the run's open folder."""
    if not os.fstat(folder).st_nlink:
        return tr("The run's folder {run_dir} was removed while it trained.", run_dir=run_dir)
    try:
        where = tr(" to {folder}", folder=os.readlink(f"/proc/self/fd/{folder}"))  # noqa: PTH115 (the kernel's answer)
    except OSError:
        where = ""
    return tr(
        "The run's folder {run_dir} was renamed{where} while it trained, so the run cannot write there any more. "
        "Rename the folder of a run only after its end.",
        run_dir=run_dir, where=where,
    )
