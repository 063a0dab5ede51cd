"""What a check of this machine and its result are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

from core.check.driver import Driver
from core.check.outcome import CouldNotLook, NotApplicable, Problem
from core.devices.device import Device, Survey
from core.errors import RunError
from core.language import tr, tr_noop
from core.text import join_labels


class State(Enum):
    """What a check came to. The distinction is that of NVIDIA's DCGM: what was not looked at is no pass."""

    PASS = "pass"  # noqa: S105 (no password)
    PROBLEM = "problem"
    COULD_NOT = "could_not"
    NOT_APPLICABLE = "not_applicable"


class Level(IntEnum):
    """How much work a check is; a level has the checks of the levels before it."""

    QUICK = 0
    """No work on a GPU."""
    WORK = 1
    """Computes on the GPUs."""
    FULL = 2
    """Trains."""


@dataclass(kw_only=True)
class Scope:
    """What is checked, and what the checks share. Closing it ends all that they started."""

    survey: Survey
    devices: tuple[Device, ...]
    """The devices to check: GPUs, or CPU devices."""
    driver: Driver
    busy: str = ""
    """Why nothing may compute on the devices; the empty string if something may."""
    sysfs: Path = Path("/sys/bus/pci/devices")
    proc: Path = Path("/proc")
    dev: Path = Path("/dev")
    kept: dict[str, Any] = field(default_factory=dict)
    """By name, what one check has measured for others: the answer, or the exception."""
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def gpus(self) -> list[Device]:
        """The GPUs to check. Raises `NotApplicable` if there is none."""
        if not (found := [device for device in self.devices if device.kind == "nvidia"]):
            self.driver.ask(system={})  # raises if there is none, or if it cannot list its GPUs
            raise NotApplicable(tr("no NVIDIA GPU is checked"))
        return found

    @property
    def gpus_to_use(self) -> list[Device]:
        """The GPUs on which something may compute. Raises `NotApplicable`, or `CouldNotLook` if they are busy."""
        gpus = self.gpus
        if self.busy:
            raise CouldNotLook(self.busy)
        if not (found := [gpu for gpu in gpus if not gpu.blocked]):
            raise CouldNotLook(tr("{labels} cannot be used", labels=join_labels([gpu.label for gpu in gpus])))
        return found

    def once(self, name: str, measure: Callable[[], Any]) -> Any:  # noqa: ANN401 (each measurement has a type of its own)
        """Return what `measure` returns or raises; it is called once for each name."""
        if name not in self.kept:
            try:
                self.kept[name] = measure()
            except (Problem, CouldNotLook, NotApplicable) as error:
                self.kept[name] = error
        if isinstance(found := self.kept[name], Exception):
            raise found
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check."""

    id: str
    level: Level
    asks: str
    """The question in a few words (English)."""
    expected: str
    """What a pass means (English)."""
    fields: Mapping[str, object] = field(default_factory=dict)
    """The fields of both."""
    look: Callable[[Scope], str]
    """Returns what was seen if that is as expected. Raises the other results."""

    @property
    def question(self) -> str:
        """The question, translated."""
        return tr(self.asks, **self.fields)

    @property
    def in_words(self) -> str:
        """What a pass means, translated."""
        return tr(self.expected, **self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a check."""

    check: Check
    state: State
    value: str
    """What was seen; why nothing could be seen, or does not apply."""
    remedy: str = ""
    seconds: float
    devices: tuple[Device, ...] = ()
    """The devices that a problem is about."""


FAILED = tr_noop("the check itself failed: {error}")


def run(checks: Iterable[Check], scope: Scope) -> Iterator[Result]:
    """Yield the result of each check as soon as it is known. No check can end the others."""
    for check in checks:
        began, remedy, devices = time.monotonic(), "", tuple[Device, ...]()
        try:
            value, state = check.look(scope), State.PASS
        except Problem as error:
            value, state, remedy, devices = str(error), State.PROBLEM, error.remedy, error.devices
        except NotApplicable as error:
            value, state = str(error), State.NOT_APPLICABLE
        except (CouldNotLook, RunError, OSError) as error:
            value, state = str(error), State.COULD_NOT
        except Exception as error:  # noqa: BLE001 (a fault of one check must not hide the others)
            value, state = tr(FAILED, error=f"{type(error).__name__}: {error}"), State.COULD_NOT
        yield Result(check=check, state=state, value=value, remedy=remedy, devices=devices,
                     seconds=time.monotonic() - began)
