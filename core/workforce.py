"""The workers of one run: started together, watched together, ended together."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core import processes
from core.events import EVENTS, Event, Tail

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence
    from pathlib import Path

    from core.spec import Placement
    from core.state import ProcessId

ENDED_BY_WORD = {1, 74, 130}  # exit codes of core.worker.main: an error, a full disk, an interrupt


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
                if event["kind"] == "error":
                    member.error = event
                events.append(event)
        return events

    @property
    def working(self) -> list[Member]:
        """Those that have not ended."""
        return [member for member in self.members if member.exit_code is None]

    def send(self, number: signal.Signals) -> None:
        """Signal those that still work; KILL goes to their whole process groups."""
        for member in self.working:
            # Not yet waited for, so the pid, and the group it leads, cannot be another's.
            if number is signal.SIGKILL:
                _kill_group(member.process.pid)
            else:
                member.process.send_signal(number)

    def close(self) -> None:
        """Let go of the dead-man switches and of the groups of workers that have ended."""
        for member in self.members:
            if member.process.stdin is not None:
                member.process.stdin.close()

    def culprit(self) -> Member | None:
        """Whose end was the cause, where several failed: the others mostly say that they lost the first.

        A worker killed from outside, which could say nothing; else who reported an error first; else
        the first with an exit code of its own.
        """
        failed = [member for member in self.members if member.exit_code]
        mute = [member for member in failed if member.error is None]
        spoken = sorted(
            (member for member in failed if member.error), key=lambda member: float((member.error or {})["t"])
        )
        return next(iter([*mute, *spoken]), None)


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
    return f"{who} ended with exit code {code} and without a word. The end of the log may say why."


def _kill_group(pid: int) -> None:
    import os

    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def end_survivors(run_id: str, number: signal.Signals) -> Sequence[ProcessId]:
    """Signal every process that carries the run's tag; returns whom."""
    return [process for process in processes.tagged(run_id) if processes.send(process, number)]
