"""The heading of a host's section in the list of devices: its state in words, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.hosts.connection import Clock
from core.hosts.failures import Failure
from core.hosts.watch import HostState, Phase
from core.language import join_sentences, tr, tr_plural
from core.text import duration
from gui.style.formatting import percent

from .device_rows import DeviceRow

LONG_S = 60.0
"""Offset of a clock from which on it is shown as a duration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostHeading:
    """A host as its section shows it."""

    name: str
    mark: str = ""
    """The shape beside its name: `tick`, `ring`, `cross` or `alert`."""
    tone: str = "muted"
    """The colour of its state: `good`, `muted`, `warn` or `bad`."""
    state: str = ""
    """`reachable`, `connecting …`, `not reachable`."""
    clock: str = ""
    """`clock +0.1 s`; the empty string while it is not known."""
    devices: str = ""
    """`8 GPUs · 34 %`, for a section that is folded."""
    sentence: str = ""
    """What is wrong, and what to do."""
    failed: bool = False
    """Whether it could not be reached the last time."""
    may_retry: bool = False
    """Whether the user may have it asked again now."""
    tip: str = ""

    @property
    def words(self) -> str:
        """`reachable · clock +0.1 s`."""
        return " · ".join(part for part in (self.state, self.clock) if part)

    @property
    def accessible_text(self) -> str:
        """The heading as text for a screen reader."""
        parts = (self.name, self.state, self.clock, self.devices, self.sentence)
        return tr(", ").join(part for part in parts if part)


def host_heading(state: HostState, rows: Sequence[DeviceRow]) -> HostHeading:
    """Return the heading of a host with these devices."""
    mark, tone, words = _state(state)
    failed = state.phase is not Phase.REACHABLE and state.error is not None
    notes = (str(state.error) if failed else "", state.clock_problem, tr(state.survey.banner or ""))
    return HostHeading(
        name=state.host.name,
        mark=mark,
        tone=tone,
        state=words,
        clock=_clock(state.clock) if state.phase is Phase.REACHABLE else "",
        devices=_devices(rows) if state.phase is Phase.REACHABLE else "",
        sentence=join_sentences([each for each in notes if each]),
        failed=failed,
        may_retry=state.phase is Phase.NOT_REACHABLE,
        tip=_tip(state),
    )


def _state(state: HostState) -> tuple[str, str, str]:
    """Return shape, tone and words of the state."""
    if state.phase is Phase.CONNECTING:
        return "ring", "muted", tr("connecting …")
    if state.phase is Phase.REACHABLE:
        return ("alert", "warn", tr("reachable")) if state.clock_problem else ("tick", "good", tr("reachable"))
    is_other = state.error is not None and state.error.failure is Failure.OTHER_VERSION
    return "cross", "bad", tr("other version") if is_other else tr("not reachable")


def _clock(clock: Clock | None) -> str:
    if clock is None:
        return ""
    if abs(clock.offset_s) < LONG_S:
        return tr("clock {offset:+.1f} s", offset=clock.offset_s)
    sign = "+" if clock.offset_s > 0 else "−"
    return tr("clock {offset}", offset=f"{sign}{duration(abs(clock.offset_s))}")


def _devices(rows: Sequence[DeviceRow]) -> str:
    """Return how many devices there are, GPUs if there is one, and how busy they are on average."""
    gpus = [row for row in rows if not row.is_cpu]
    count = len(gpus) or len(rows)
    if not count:
        return ""
    busy = [row.utilisation_percent for row in gpus or rows if row.utilisation_percent is not None]
    words = tr_plural("{count} device", "{count} devices", count)
    if gpus:
        words = tr_plural("{count} GPU", "{count} GPUs", count)
    return f"{words} · {percent(sum(busy) / len(busy) if busy else None)}"


def _tip(state: HostState) -> str:
    host, hello, clock = state.host, state.hello, state.clock
    lines = [f"{host.name}: {host.address}", tr("Command: {command}", command=host.command)]
    if hello is not None:
        lines.append(
            tr("Trainyard {version}, Python {python}, user {user} on {host}", version=hello.version,
               python=hello.python, user=hello.user, host=hello.host)
        )  # fmt: skip
        lines.append(tr("Folder of runs there: {folder}", folder=hello.runs))
    if clock is not None:
        lines.append(
            tr("Clock: {offset:+.2f} s; an answer takes {seconds:.2f} s", offset=clock.offset_s,
               seconds=clock.round_trip_s)
        )  # fmt: skip
    return "\n".join(lines)
