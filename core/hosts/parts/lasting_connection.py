"""A connection to a machine of a run that outlives cuts: it is made again, for as long as the run can wait."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from core.hosts.carriers.registry import carrier_of
from core.hosts.connection import Connection
from core.hosts.failures import Failure, HostError
from core.hosts.inquiry import HELLO_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.devices.device import Device
    from core.hosts.host_list import Host

RETRY_S = 2.0
"""Seconds between two attempts to connect again."""


class LastingConnection:
    """A connection that is made again after a cut."""

    def __init__(self, host: Host) -> None:
        """Start to connect. Raises `HostError` if that is not possible at all."""
        self._host = host
        self.now = Connection(host)
        """The connection of now; while it is cut, the one that was."""
        self.reserved: tuple[Device, ...] = ()
        """Devices off which every connection keeps the carrier's other users."""
        self.cut: HostError | None = None
        """Why it was cut the last time, or why it could not be made again since."""
        self._cut_at: float | None = None
        self._retry_at = 0.0
        self._next: Connection | None = None
        """The connection that is to take the place of one that was cut."""

    def await_hello(self) -> None:
        """Wait until the agent answers. Raises `HostError`."""
        self.now.wait(lambda: self.now.hello is not None, HELLO_S, lambda: True)

    def reserve(self, devices: Sequence[Device]) -> None:
        """Keep other users of the carrier off these devices from now on. Raises `HostError` if they use them."""
        if not carrier_of(self._host.address).is_shared:
            return
        self.reserved = tuple(devices)
        self.now.close()
        self.now = Connection(self._host, self.reserved)
        self.await_hello()

    @property
    def is_cut(self) -> bool:
        """Whether there is no connection now."""
        return self._cut_at is not None

    @property
    def cut_s(self) -> float:
        """Seconds since the connection was cut; 0 while there is one."""
        return 0.0 if self._cut_at is None else time.monotonic() - self._cut_at

    def note_cut(self, error: HostError) -> None:
        """Give the connection up: it is of no use any more."""
        self._cut_at, self.cut = time.monotonic(), error
        self._retry_at = self._cut_at + RETRY_S
        self.now.close()

    def try_again(self) -> bool:
        """Go on to connect again, without waiting; return whether there is a connection."""
        now = time.monotonic()
        try:
            if self._next is None and now >= self._retry_at:
                self._next = Connection(self._host, self.reserved)
            if self._next is not None:
                self._next.poll()
        except HostError as error:
            self.cut, self._retry_at = error, now + RETRY_S
            self._close_next()
        if self._next is None or self._next.hello is None:
            return False
        self.now, self._next, self._cut_at = self._next, None, None
        return True

    @property
    def has_lost_devices(self) -> bool:
        """Whether other users of the carrier were given the devices while the connection was cut."""
        return self.is_cut and bool(self.reserved) and self.cut is not None and self.cut.failure is Failure.BUSY

    def give_devices_up(self) -> None:
        """Connect from now on without keeping other users off the devices."""
        self.reserved = ()

    def close(self) -> None:
        """End the connection."""
        self._close_next()
        self.now.close()

    def _close_next(self) -> None:
        if self._next is not None:
            self._next.close()
            self._next = None
