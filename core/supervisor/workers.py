"""The workers of one run: started together, watched together, ended together."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.schema.events import Event, Tail
from core.schema.paths import EVENTS, worker_events
from core.system import processes

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from core.schema.rank import RankAssignment
    from core.system.processes import ProcessId


ROLES = {"chief": "The chief", "ps": "The parameter server"}
SERVER_GRACE_S = 3.0
STUCK_AFTER_S = 10.0
"""A worker that has not ended so long after KILL waits inside the kernel, and is not waited for."""


@dataclass(slots=True)
class Worker:
    """One worker and what it has said."""

    placement: RankAssignment
    process: subprocess.Popen[bytes]
    identity: ProcessId | None
    """None when it ended before it could be looked at."""
    tail: Tail
    serves: bool = False
    """Whether it works for others and never ends by itself: it is ended when they are done."""
    exit_code: int | None = None
    error: Event | None = None
    done: bool = False
    """Whether it has said that its training is done; of one that serves, whether those it serves have."""
    paused: bool = False
    """Whether it was done because training was paused."""
    signalled: bool = False
    """Whether this run signalled it while it worked: what it says or does from then on is a consequence."""
    killed_at: float | None = None
    """When this run sent it KILL, in seconds of `time.monotonic`."""

    @property
    def is_script(self) -> bool:
        """Whether it is a program of the user's own, whose exit code is its only word."""
        return not self.placement.target

    @property
    def stuck(self) -> bool:
        """Whether not even KILL has ended it: it is left to the watch over what the run leaves behind."""
        return (
            self.exit_code is None
            and self.killed_at is not None
            and (time.monotonic() - self.killed_at > STUCK_AFTER_S)
        )

    @property
    def failed(self) -> bool:
        """Whether it has ended, or said an error, without its training being done."""
        return not self.done and (self.exit_code is not None or self.error is not None)

    @property
    def ended_by_shutdown(self) -> bool:
        """Whether it was ended by the signal that a logout or a shutdown sends to all at once, us included."""
        return self.error is None and -(self.exit_code or 0) in {signal.SIGTERM, signal.SIGHUP, signal.SIGINT}

    @property
    def device(self) -> str:
        """The device, or devices, it works on."""
        return ", ".join(self.placement.own)

    @property
    def name(self) -> str:
        """What to call it in a sentence."""
        who = ROLES.get(self.placement.role, f"Worker {self.placement.rank}")
        return f"{who} on {self.device}" if self.device else who


class WorkerGroup:
    """All workers of a run."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self.members: list[Worker] = []
        self._servers_due: float | None = None

    def add(self, placement: RankAssignment, launch: Callable[[RankAssignment], subprocess.Popen[bytes]]) -> Worker:
        """Start a worker and take charge of it. What an earlier leg of the run said is not its word."""
        tail = Tail(self._run_dir / EVENTS / worker_events(placement.rank))
        tail.skip()  # before the start: its first word must not be missed
        process = launch(placement)
        serves = any(member.placement.role == "chief" for member in self.members)
        member = Worker(placement, process, processes.identify(process.pid), tail, serves)
        self.members.append(member)
        return member

    def wait(self, timeout_s: float) -> None:
        """Return when the time is over, or as soon as a worker has ended."""
        ends = select.poll()
        with contextlib.ExitStack() as stack:
            for member in self.working:
                try:
                    end = os.pidfd_open(member.process.pid)
                except OSError:  # no descriptor is left, or this system forbids those of processes
                    continue
                stack.callback(os.close, end)
                ends.register(end, select.POLLIN)
            ends.poll(1000 * timeout_s)

    def poll(self) -> list[Worker]:
        """Ask every worker first; returns those that have ended since the last call."""
        ended = []
        for member in self.members:
            if member.exit_code is None and (code := member.process.poll()) is not None:
                member.exit_code = code
                member.done = member.done or (member.is_script and code == 0)
                ended.append(member)
        return ended

    def read(self) -> list[Event]:
        """What the workers have reported since the last call."""
        events = []
        for member in self.members:
            for event in member.tail.read():
                if event["kind"] == "error" and not member.signalled:
                    member.error = event
                if event["kind"] == "done":
                    member.done, member.paused = True, event.get("paused") is True
                events.append(event)
        if all(member.done for member in self.trainers):
            for member in self.members:
                member.done = True
        return events

    @property
    def trainers(self) -> list[Worker]:
        """Those that train: all but those that serve."""
        return [member for member in self.members if not member.serves]

    @property
    def paused(self) -> bool:
        """Whether training is done for now, to be resumed."""
        return any(member.paused for member in self.trainers)

    def end_servers(self, send: Callable[[signal.Signals], None]) -> None:
        """Once none that trains is left, end those that served: TERM, then KILL after a grace. To be called often."""
        if any(member.exit_code is None for member in self.trainers):
            return
        if self._servers_due is None:
            self._servers_due = time.monotonic() + SERVER_GRACE_S
            send(signal.SIGTERM)
        elif time.monotonic() >= self._servers_due:
            send(signal.SIGKILL)

    def pids_by_device(self) -> dict[str, list[int]]:
        """Who works on which device."""
        pids: dict[str, list[int]] = {}
        for member in self.members:
            for device in member.placement.own:
                pids.setdefault(device, []).append(member.process.pid)
        return pids

    @property
    def working(self) -> list[Worker]:
        """Those that have not ended, and still may."""
        return [member for member in self.members if member.exit_code is None and not member.stuck]

    @property
    def left(self) -> list[ProcessId]:
        """Those that have not ended, be they stuck."""
        return [member.identity for member in self.members if member.exit_code is None and member.identity]

    def with_them(self, found: Iterable[ProcessId]) -> list[ProcessId]:
        """Of some processes those in the groups of workers that have not ended: their children, mostly."""
        groups = {member.process.pid for member in self.working}
        return [each for each in found if each.pid not in groups and _group(each.pid) in groups]

    def send(self, number: signal.Signals) -> None:
        """Signal those that still work; KILL goes to their whole process groups, and to scripts INT, too."""
        for member in self.working:
            member.signalled = True
            # Not yet waited for, so the pid, and the group it leads, cannot be another's.
            if number is signal.SIGKILL:
                member.killed_at = member.killed_at or time.monotonic()
                _signal_group(member.process.pid, number)
            elif number is signal.SIGINT and member.is_script:
                _signal_group(member.process.pid, number)  # as Ctrl-C in a terminal, for which programs are written
            else:
                member.process.send_signal(number)

    def close(self) -> None:
        """Let go of the workers' dead-man switches."""
        for member in self.members:
            if member.process.stdin is not None:
                member.process.stdin.close()

    def culprit(self) -> Worker | None:
        """Whose failure was the cause, where several failed: the others mostly say that they lost the first.

        Only who failed of itself can be. Of these a worker killed from outside, which could say
        nothing; else who reported an error first; else who ended with an exit code of its own.
        """
        failed = [member for member in self.members if member.failed and (member.error or not member.signalled)]
        killed = [member for member in failed if member.error is None and (member.exit_code or 0) < 0]
        spoken = sorted((each for each in failed if each.error), key=lambda each: float((each.error or {})["t"]))
        return next(iter([*killed, *spoken, *failed]), None)


def describe(member: Worker) -> str:
    """One sentence on how a worker failed."""
    who = member.name
    code = member.exit_code or 0
    if member.error is not None:
        kind, line = member.error.get("type"), _telling_line(str(member.error.get("message")))
        if kind == "RecordError":
            return line
        return f"{who}: {kind}: {line}" + ("" if line.endswith((".", "!", "?")) else ".")
    if code < 0:
        name = signal.Signals(-code).name
        hint = " The machine may have run out of memory: the kernel's log says so." if name == "SIGKILL" else ""
        return f"{who} was ended by {name}, which this run did not send.{hint}"
    return f"{who} ended with exit code {code} before its training was done. The end of the log may say why."


def _telling_line(message: str) -> str:
    """The first line of an error's text that tells something: TensorFlow's often begins with a heading."""
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    if not lines or not lines[0].endswith(":"):
        return lines[0] if lines else ""
    named = [found[1] for line in lines if (found := re.match(r"\w+(?:Error|Exception): (.+)", line))]
    return named[-1] if named else " ".join(lines[:2])


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)
