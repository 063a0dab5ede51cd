"""What the watch over memory found out: who holds a device, what had to be ended, and what came of it. As data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

COMMAND_LENGTH = 300
"""Of a command line, so many characters are kept in an event: it may be megabytes."""


Key = tuple[int, float | None]
"""What tells a process from another: its pid, and when it was created."""


class Verdict(Enum):
    """What became of a device's memory after a run; the values are what event logs and `--json` carry."""

    RELEASED = "released"
    HELD_BY_RUN = "held by this run"
    HELD_BY_OTHERS = "held by others"
    UNEXPLAINED = "unexplained"
    CANNOT_BE_JUDGED = "cannot be judged"


BADNESS = (
    Verdict.RELEASED,
    Verdict.CANNOT_BE_JUDGED,
    Verdict.HELD_BY_OTHERS,
    Verdict.UNEXPLAINED,
    Verdict.HELD_BY_RUN,
)
"""From the best to the worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that holds a device. What may not be read, or cannot be, is None."""

    pid: int
    created: float | None = None
    """In seconds since the machine's start; None when the pid is not known here."""
    device_id: str | None = None
    """None: some GPU, which one is not known."""
    memory_used_bytes: int | None = None
    """Of the device; on a CPU device, resident memory."""
    name: str | None = None
    user: str | None = None
    command: str | None = None
    age_s: float | None = None
    """Since it was started."""
    run_id: str | None = None
    """Of the run that it carries the tag of, where that may be read."""
    state: str | None = None
    """The letter of `/proc/PID/stat`: R, S, D, Z, T, ..."""
    ours: bool = False
    """Whether it is of the user who asks."""
    listed: bool = False
    """Whether the device's driver names it; else it only has the device's file open."""

    @property
    def key(self) -> Key:
        """The process, whatever is known of it besides."""
        return self.pid, self.created

    @property
    def words(self) -> str:
        """`pid 4711 python (anna)`, for a sentence."""
        if self.name is None:
            return f"pid {self.pid} (of another namespace, or gone)"
        return f"pid {self.pid} {self.name}" + (f" ({self.user})" if self.user else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What was found out about one device after the run's last worker had ended."""

    device_id: str
    verdict: Verdict
    before_bytes: int | None
    """Memory used before the first worker was started; None without a reading."""
    peak_bytes: int | None
    after_bytes: int | None
    """By the last reading, made after the end; None without one."""
    seconds: float
    """From the end of the last worker to the verdict."""
    sentence: str
    holders: tuple[Holder, ...] = ()
    """Who holds it still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A process of the run that outlived its worker, or its supervisor, and had to be ended."""

    pid: int
    created: float
    """In seconds since the machine's start."""
    name: str | None
    command: str | None
    signal: str
    """The last it was sent: `SIGTERM` or `SIGKILL`."""
    by: str
    """`supervisor` or `guard`."""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of some verdicts, of which there is at least one."""
    return max(verdicts, key=BADNESS.index)


def release_fields(release: Release) -> dict[str, Any]:
    """A finding as the fields of its event."""
    return {
        "device": release.device_id,
        "verdict": release.verdict.value,
        "before_bytes": release.before_bytes,
        "peak_bytes": release.peak_bytes,
        "after_bytes": release.after_bytes,
        "seconds": round(release.seconds, 3),
        "sentence": release.sentence,
        "holders": [holder_fields(holder) for holder in release.holders],
    }


def holder_fields(holder: Holder) -> dict[str, Any]:
    """A holder as JSON has it: its age is of the moment, and its device is told beside it."""
    return {
        "pid": holder.pid,
        "created": holder.created,
        "name": holder.name,
        "user": holder.user,
        "command": _kept(holder.command),
        "memory_used_bytes": holder.memory_used_bytes,
        "run_id": holder.run_id,
        "state": holder.state,
        "ours": holder.ours,
    }


def read_release(event: dict[str, Any]) -> Release:
    """The finding that an event tells. Raises `KeyError`, `TypeError` or `ValueError` when it tells none."""
    device = str(event["device"])
    return Release(
        device_id=device,
        verdict=Verdict(event["verdict"]),
        before_bytes=_whole(event.get("before_bytes")),
        peak_bytes=_whole(event.get("peak_bytes")),
        after_bytes=_whole(event.get("after_bytes")),
        seconds=_finite(event["seconds"]),
        sentence=str(event["sentence"]),
        holders=tuple(_read_holder(each, device) for each in event.get("holders", ())),
    )


def _read_holder(data: object, device: str) -> Holder:
    if not isinstance(data, dict):
        raise TypeError(data)
    created = data.get("created")
    return Holder(
        pid=int(data["pid"]),
        created=None if created is None else _finite(created),
        device_id=device,
        memory_used_bytes=_whole(data.get("memory_used_bytes")),
        name=_text(data.get("name")),
        user=_text(data.get("user")),
        command=_text(data.get("command")),
        run_id=_text(data.get("run_id")),
        state=_text(data.get("state")),
        ours=data.get("ours") is True,
    )


def read_ended(event: dict[str, Any]) -> tuple[Ended, ...]:
    """The processes that an event says were ended. Raises as `read_release`."""
    by = str(event["by"])
    return tuple(_read_ended(each, by) for each in event["processes"])


def _read_ended(data: object, by: str) -> Ended:
    if not isinstance(data, dict):
        raise TypeError(data)
    return Ended(
        pid=int(data["pid"]),
        created=_finite(data["created"]),
        name=_text(data.get("name")),
        command=_text(data.get("command")),
        signal=str(data["signal"]),
        by=by,
    )


def ended_fields(by: str, ended: Iterable[Ended]) -> dict[str, Any]:
    """What had to be ended, and by whom, as the fields of its event."""
    return {
        "by": by,
        "processes": [
            {
                "pid": each.pid, "created": each.created, "name": each.name, "command": _kept(each.command),
                "signal": each.signal,
            }
            for each in ended
        ],
    }  # fmt: skip


def shortened(command: str, length: int = COMMAND_LENGTH) -> str:
    """So many characters of a command line at most; without a number, as many as events keep."""
    return command if len(command) <= length else f"{command[: length - 1]}…"


def _kept(command: str | None) -> str | None:
    return None if command is None else shortened(command)


def _whole(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(value)
    return int(value)


def _finite(value: Any) -> float:  # noqa: ANN401 (as it was found in a log)
    number = float(value)
    if not math.isfinite(number):  # JSON has no such numbers, but a reader of it takes them
        raise ValueError(value)
    return number


def _text(value: object) -> str | None:
    return None if value is None else str(value)
