"""What a check comes to unless it passes: exceptions whose `str()` is for people."""

from __future__ import annotations

from collections.abc import Sequence

from core.devices.device import Device


class Problem(Exception):  # noqa: N818 (a result)
    """Something is wrong: what was seen, and what to do about it."""

    def __init__(self, value: str, remedy: str, devices: Sequence[Device] = ()) -> None:
        super().__init__(value)
        self.remedy, self.devices = remedy, tuple(devices)


class CouldNotLook(Exception):  # noqa: N818 (a result)
    """It is not known whether something is wrong; `str()` says why, and `remedy` what to do if that is known."""

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(why)
        self.remedy = remedy


class NotApplicable(Exception):  # noqa: N818 (a result)
    """This machine or these devices have nothing of the kind; `str()` says why."""
