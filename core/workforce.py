"""The workers of one run: started together, watched together, ended together."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core import processes
from core.events import EVENTS, Event, Tail

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from core.spec import Placement
    from core.state import ProcessId


@dataclass(slots=True)
class Member:
    """One worker and what it has said."""

    placement: Placement
    process: subprocess.Popen[bytes]
    identity: ProcessId | None
    """None when it ended before it could be looked at."""
    tail: Tail
    exit_code: int | None = None
    error: Event | None = None
    done: bool = False
    """Whether it has said that its training is done."""
    signalled: bool = False
    """Whether this run signalled it while it worked: what it says or does from then on is a consequence."""

    @property
    def failed(self) -> bool:
        """Whether it has ended, or said an error, without its training being done."""
        return not self.done and (self.exit_code is not None or self.error is not None)

    @property
    def device(self) -> str:
        """The device, or devices, it works on."""
        devices = self.placement.devices
        return devices[self.placement.rank] if self.placement.world_size > 1 else ", ".join(devices)


class Workforce:
    """All workers of a run."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self.members: list[Member] = []

    def add(self, placement: Placement, process: subprocess.Popen[bytes]) -> Member:
        """Take charge of a worker that was just started."""
        tail = Tail(self._run_dir / EVENTS / f"worker-{placement.rank}.jsonl")
        member = Member(placement, process, processes.identify(process.pid), tail)
        self.members.append(member)
        return member

    def poll(self) -> list[Member]:
        """Ask every worker first; returns those that have ended since the last call."""
        ended = []
        for member in self.members:
            if member.exit_code is None and (code := member.process.poll()) is not None:
                member.exit_code = code
                ended.append(member)
        return ended

    def read(self) -> list[Event]:
        """What the workers have reported since the last call."""
        events = []
        for member in self.members:
            for event in member.tail.read():
                if event["kind"] == "error" and not member.signalled:
                    member.error = event
                member.done = member.done or event["kind"] == "done"
                events.append(event)
        return events

    @property
    def working(self) -> list[Member]:
        """Those that have not ended."""
        return [member for member in self.members if member.exit_code is None]

    def send(self, number: signal.Signals) -> None:
        """Signal those that still work; KILL goes to their whole process groups."""
        for member in self.working:
            member.signalled = True
            # Not yet waited for, so the pid, and the group it leads, cannot be another's.
            if number is signal.SIGKILL:
                _kill_group(member.process.pid)
            else:
                member.process.send_signal(number)

    def close(self) -> None:
        """Let go of the workers' dead-man switches."""
        for member in self.members:
            if member.process.stdin is not None:
                member.process.stdin.close()

    def culprit(self) -> Member | None:
        """Whose failure was the cause, where several failed: the others mostly say that they lost the first.

        Only who failed of itself can be. Of these a worker killed from outside, which could say
        nothing; else who reported an error first; else who ended with an exit code of its own.
        """
        failed = [member for member in self.members if member.failed and (member.error or not member.signalled)]
        killed = [member for member in failed if member.error is None and (member.exit_code or 0) < 0]
        spoken = sorted((each for each in failed if each.error), key=lambda each: float((each.error or {})["t"]))
        return next(iter([*killed, *spoken, *failed]), None)


def describe(member: Member) -> str:
    """One sentence on how a worker failed."""
    who = f"Worker {member.placement.rank} on {member.device}"
    code = member.exit_code or 0
    if member.error is not None:
        kind, message = member.error.get("type"), member.error.get("message")
        first_line = str(message).strip().split("\n")[0]
        if kind == "RecordError":
            return first_line
        return f"{who}: {kind}: {first_line}" + ("" if first_line.endswith((".", "!", "?")) else ".")
    if code < 0:
        name = signal.Signals(-code).name
        hint = " The machine may have run out of memory: the kernel's log says so." if name == "SIGKILL" else ""
        return f"{who} was ended by {name}, which this run did not send.{hint}"
    return f"{who} ended with exit code {code} before its training was done. The end of the log may say why."


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
