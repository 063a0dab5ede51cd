"""What is known of one device's memory after a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.devices.device import Device
    from core.findings import Holder, Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that is known of one device at a moment after the end. Memory in bytes; None is "no reading"."""

    device: Device
    tolerance_bytes: int
    before: int | None
    peak: int | None
    after: int | None
    """Of a reading made after the end, never of an earlier one."""
    lost: str | None = None
    """A sentence, when the device does not answer."""
    asleep: bool = False
    """Whether it sleeps since the end, and is not asked."""
    held_before: tuple[Holder, ...] = ()
    """Who held it before the first worker was started."""
    listed_before: bool = True
    """Whether the driver said who they were; else there may have been others."""
    holders: tuple[Holder, ...] = ()
    """Who holds it now, this run's own left out."""
    own: tuple[Holder, ...] = ()
    """This run's processes that hold it, or may hold it, still."""
    sent: Mapping[Key, str] = field(default_factory=dict)
    """The last signal that each of `own` was sent; without those that were sent none."""
    gone: tuple[Holder, ...] = ()
    """This run's processes on which the driver books memory although they have ended."""
    ended: tuple[str, ...] = ()
    """In words, those that outlived their worker and have been ended."""
    trouble: str | None = None
    """A sentence on what could not be seen."""
    blind: bool = False
    """Whether the machine's processes could not be seen at all."""
    seconds: float = 0.0
    """Since the end."""
    due: bool = False
    """Whether it is to be judged now, whatever is known."""
    patient: bool = True
    """Whether a device that does not answer is still waited for."""
    hurried: bool = False
    """Whether the waiting was cut short."""

    @property
    def label(self) -> str:
        """What to call the device."""
        return self.device.label

    @property
    def excess(self) -> int:
        """How much more is used than before, in bytes; 0 when less."""
        return max(0, (self.after or 0) - (self.before or 0))
