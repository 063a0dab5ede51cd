"""The workers of one run: poll them, read their events, signal them, and stop them step by step.

The steps of a stop are ask, SIGINT, SIGTERM, SIGKILL: each follows after the timeout of the last.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from core.diagnosis.evidence import OF_WORKER
from core.diagnosis.program_output import first_sentence
from core.language import join_sentences, tr, tr_noop
from core.schema.event_kinds import Done, WorkerError, read_all
from core.schema.events import Event, Tail
from core.schema.paths import EVENTS, worker_events
from core.schema.settings import EscalationSteps
from core.schema.spec import RankAssignment
from core.system.processes import ProcessId

NAMES = {
    "chief": (tr_noop("The chief"), tr_noop("The chief on {device}")),
    "ps": (tr_noop("The parameter server"), tr_noop("The parameter server on {device}")),
    "fetch": (tr_noop("The process that fetches data"), tr_noop("The process that fetches data on {device}")),
}
"""What a process is called in a sentence, by its role: without a device, and with one."""
WORKER = (tr_noop("Worker {rank}"), tr_noop("Worker {rank} on {device}"))
STRAGGLER_S = 10.0
"""Seconds that workers have to exit after the end of their training."""
STUCK_AFTER_S = 10.0
"""Seconds after SIGKILL after which a worker counts as stuck inside the kernel, and is no longer waited for."""


@dataclass(slots=True)
class Worker:
    """One worker and what it has reported."""

    assignment: RankAssignment
    process: subprocess.Popen[bytes] | None
    """None for a worker on another machine."""
    identity: ProcessId | None
    """None when it ended before it could be identified."""
    tail: Tail
    exit_code: int | None = None
    error: WorkerError | None = None
    done: bool = False
    """Whether it has reported the end of its training; for a serving worker, whether all trainers have."""
    paused: bool = False
    """Whether it ended its training because of a pause."""
    signalled: bool = False
    """Whether this run signalled it while it worked: its later errors are a consequence."""
    killed_at: float | None = None
    """When this run sent SIGKILL, in seconds of `time.monotonic`."""

    @property
    def serves(self) -> bool:
        """Whether it serves other workers and never ends by itself: it is terminated when they have ended."""
        return self.assignment.serves

    @property
    def is_script(self) -> bool:
        """Whether it is a program of the user, which reports nothing but its exit code."""
        return not self.assignment.target

    @property
    def pid(self) -> int | None:
        """Its process id here; None for a worker on another machine."""
        return self.process.pid if self.process is not None else None

    def poll_exit(self) -> int | None:
        """Return its exit code; None while it runs."""
        assert self.process is not None
        return self.process.poll()

    def send_signal(self, number: signal.Signals) -> None:
        """Signal it. SIGKILL goes to its process group, and SIGINT to that of a script."""
        assert self.process is not None
        # The worker has not been reaped, so its pid and its process group cannot belong to another process.
        if number is signal.SIGKILL:
            self.killed_at = self.killed_at or time.monotonic()
        if number is signal.SIGKILL or (number is signal.SIGINT and self.is_script):  # as by Ctrl-C in a terminal
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    @property
    def stuck(self) -> bool:
        """Whether SIGKILL has not ended it: the memory watch takes it over."""
        since = self.killed_at if self.exit_code is None else None
        return since is not None and time.monotonic() - since > STUCK_AFTER_S

    @property
    def failed(self) -> bool:
        """Whether it has exited, or reported an error, before the end of its training."""
        return not self.done and (self.exit_code is not None or self.error is not None)

    @property
    def ended_by_shutdown(self) -> bool:
        """Whether a signal ended it that a logout or a shutdown sends to all processes, this one included."""
        return self.error is None and -(self.exit_code or 0) in {signal.SIGTERM, signal.SIGHUP, signal.SIGINT}

    @property
    def name(self) -> str:
        without, on_device = NAMES.get(self.assignment.role, WORKER)
        device = ", ".join(self.assignment.own)
        return tr(on_device if device else without, rank=self.assignment.rank, device=device)


class WorkerGroup:
    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self.members: list[Worker] = []
        self._trained_at: float | None = None
        """When all had trained to the end, in seconds of `time.monotonic`; inf once stragglers were returned."""

    def tail(self, assignment: RankAssignment) -> Tail:
        """Return the reader of a worker's events, which skips those from before a resume. Call it before the start."""
        tail = Tail(self._run_dir / EVENTS / worker_events(assignment.rank))
        tail.skip()
        return tail

    def add(self, worker: Worker) -> None:
        self.members.append(worker)

    def wait(self, timeout_s: float) -> None:
        """Wait until a worker on this machine has exited, for at most `timeout_s` seconds."""
        ends = select.poll()
        with contextlib.ExitStack() as stack:
            for worker in self.working:
                if worker.pid is None:
                    continue
                try:
                    end = os.pidfd_open(worker.pid)
                except OSError:  # no file descriptor is left, or this system has none for processes
                    continue
                stack.callback(os.close, end)
                ends.register(end, select.POLLIN)
            ends.poll(1000 * timeout_s)

    def poll(self) -> list[Worker]:
        """Poll every worker; return those that have exited since the last call."""
        ended = []
        for worker in self.members:
            if worker.exit_code is None and (code := worker.poll_exit()) is not None:
                worker.exit_code = code
                worker.done = worker.done or (worker.is_script and code == 0)
                ended.append(worker)
        return ended

    def read(self) -> list[Event]:
        """Return what the workers have reported since the last call."""
        events: list[Event] = []
        for worker in self.members:
            new = worker.tail.read()
            for error in read_all(WorkerError, new):
                worker.error = worker.error if worker.signalled else error
            for done in read_all(Done, new):
                worker.done, worker.paused = True, done.paused
            events += new
        if self.have_trained:
            for worker in self.members:
                worker.done = True
        return events

    @property
    def trainers(self) -> list[Worker]:
        """The workers that train: all but those that serve."""
        return [worker for worker in self.members if not worker.serves]

    @property
    def have_trained(self) -> bool:
        """Whether all workers that train have reported the end of their training. If none of them is here: False."""
        return bool(self.trainers) and all(worker.done for worker in self.trainers)

    def stragglers(self) -> list[Worker]:
        """Return, once, workers that have trained to the end but do not exit: a thread of the recipe may keep them."""
        if not self.have_trained:
            return []
        now = time.monotonic()
        self._trained_at = now if self._trained_at is None else self._trained_at
        if now - self._trained_at <= STRAGGLER_S:
            return []
        self._trained_at = float("inf")
        return [worker for worker in self.working if not worker.serves]

    @property
    def paused(self) -> bool:
        """Whether training ended for a pause, to be resumed later."""
        return any(worker.paused for worker in self.trainers)

    def pids_by_device(self) -> dict[str, list[int]]:
        pids: dict[str, list[int]] = {}
        for worker in self.members:
            for device in worker.assignment.own:
                if worker.pid is not None:
                    pids.setdefault(device, []).append(worker.pid)
        return pids

    @property
    def working(self) -> list[Worker]:
        """The workers that have not exited and are not stuck."""
        return [worker for worker in self.members if worker.exit_code is None and not worker.stuck]

    @property
    def alive(self) -> list[ProcessId]:
        """The workers that have not exited, stuck ones included."""
        return [worker.identity for worker in self.members if worker.exit_code is None and worker.identity]

    def in_their_groups(self, found: Iterable[ProcessId]) -> list[ProcessId]:
        """Return those of some processes that are in the process group of a working worker: mostly its children."""
        groups = {worker.pid for worker in self.working if worker.pid is not None}
        members = []
        for each in found:
            with contextlib.suppress(ProcessLookupError):
                if each.pid not in groups and os.getpgid(each.pid) in groups:
                    members.append(each)
        return members

    def send(self, number: signal.Signals) -> None:
        """Signal the working workers; see `Worker.send_signal`. One that has just ended did not end by the signal."""
        for worker in self.working:
            if worker.poll_exit() is None:
                worker.signalled = True
                worker.send_signal(number)

    def close(self) -> None:
        """Close the pipes of the workers' dead-man switches."""
        for worker in self.members:
            if worker.process is not None and worker.process.stdin is not None:
                worker.process.stdin.close()

    def culprits(self) -> list[Worker]:
        """Return the workers whose failure can be the cause, the most certain first.

        First those that were killed from outside, which could not report an error, then those that reported an error,
        the first one first, then those with an exit code of their own. Last, if there are any, are processes of a
        script that this run has signalled: they may have printed an exception before.
        """
        failed = [worker for worker in self.members if worker.failed and (worker.error or not worker.signalled)]
        killed = [worker for worker in failed if worker.error is None and (worker.exit_code or 0) < 0]
        spoken = sorted(
            (each for each in failed if each.error), key=lambda each: each.error.time if each.error else 0.0
        )
        late = [each for each in self.members if each.failed and each.is_script and failed]
        return list({id(each): each for each in [*killed, *spoken, *failed, *late]}.values())


def describe(worker: Worker) -> str:
    """Return a sentence on how a worker failed."""
    name = worker.name
    code = worker.exit_code or 0
    if worker.error is not None:
        kind, line = worker.error.type_name, first_sentence(worker.error.message)
        if kind == "RecordError":
            return line
        told = join_sentences([f"{kind}:", line]) if line else kind
        told = told if line.endswith((".", "!", "?")) else tr("{phrase}.", phrase=told)
        return join_sentences([tr(OF_WORKER, phrase=name), told])
    if code < 0:
        number = signal.Signals(-code).name
        text = tr("{name} was ended by {signal}, which this run did not send.", name=name, signal=number)
        hint = tr("The machine may have run out of memory: look into the kernel's log.")
        return join_sentences([text, hint]) if number == "SIGKILL" else text
    sentence = tr_noop(
        "{name} ended with exit code {code} before its training was done. The end of the log may say why."
    )
    return tr(sentence, name=name, code=code)


REPEAT_AFTER = 1 / 3
"""Share of SIGINT's timeout after which it is sent again to workers that train on: as a user presses Ctrl-C again."""


class StopEscalation:
    """Takes each step when it is due. The caller stops calling `tick` when all workers have exited."""

    def __init__(
        self, steps: EscalationSteps, *, send: Callable[[signal.Signals], None],
        record: Callable[[str, float | None], None] = lambda *_: None, is_delayed: Callable[[], bool] = lambda: False,
    ) -> None:
        """`send` signals the workers. `record` receives the name and the timeout in seconds of each step taken.

        `is_delayed`: whether a step after the first must wait.
        """
        self._steps = list(steps)
        self._send, self._record, self._is_delayed = send, record, is_delayed
        self._due: float | None = None
        self._repeat_at: float | None = None
        self._still_trains_at = 0.0
        """A measurement after this time shows that training goes on."""

    def begin(self, first: str | None = None) -> None:
        """Take the step called `first`, or the mildest, now. Does nothing once begun."""
        if self._due is None:
            while first is not None and self._steps[0][0] != first:
                self._steps.pop(0)
            self._advance()

    def tick(self, measured_at: float = float("-inf")) -> None:
        """Take the next step if it is due.

        `measured_at`: when the last measurement came, in seconds of `time.monotonic`. If they go on, a SIGINT is
        sent once more: Keras, for one, loses an interrupt that comes within a callback. A program that saves its state
        has none.
        """
        now = time.monotonic()
        if self._due is None:
            return
        if self._steps and now >= self._due:
            if not self._is_delayed():
                self._advance()
        elif self._repeat_at is not None and now >= self._repeat_at and measured_at >= self._still_trains_at:
            self._repeat_at = None
            self._record(signal.SIGINT.name, self._due - now)
            self._send(signal.SIGINT)

    def force(self) -> None:
        """Take the last step next."""
        self._steps, self._due = self._steps[-1:], time.monotonic()
        self.tick()

    def _advance(self) -> None:
        name, number, timeout_s = self._steps.pop(0)
        now = time.monotonic()
        self._due = now + (timeout_s or 0.0)
        wait_s = REPEAT_AFTER * (timeout_s or 0.0)
        self._repeat_at = now + wait_s if number is signal.SIGINT else None
        self._still_trains_at = now + wait_s / 2
        self._record(name, timeout_s)
        if number is not None:
            self._send(number)
