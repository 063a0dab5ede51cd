"""The hosts that the user has added. They are asked while the window can be seen, each on a thread of its own."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from core.devices.device import Survey
from core.devices.host_names import full_name, split_name
from core.system.folders import HOSTS_FILE, config_folder

if TYPE_CHECKING:
    from collections.abc import Collection

    from core.devices.device import Sample
    from core.hosts.watch import HostState, HostWatch

LOOK_S = 1.0
"""Seconds between two looks whether the file of hosts has changed, as `trainyard hosts` may do meanwhile."""
END_S = 2.0
"""Longest wait at the end for the connections to be closed."""


class HostMonitor:
    """What is known of the hosts. `poll` never waits. Without hosts, nothing of `core.hosts` is loaded."""

    def __init__(self, *, is_here: bool = True) -> None:
        """`is_here`: whether the window shows this machine; beside the devices of a host, no others are shown."""
        self._is_here = is_here
        self.states: tuple[HostState, ...] = ()
        """In the order of the user's list."""
        self.surveys: tuple[Survey, ...] = ()
        """By host, its devices and readings; devices that cannot be used now are blocked."""
        self.problem = ""
        """What is wrong with the list of hosts; the empty string if nothing is."""
        self.is_urgent = False
        """Whether the last poll has found something that the user waits for, other than readings."""
        self._watches: list[HostWatch] = []
        self._removed: list[HostWatch] = []
        self._wanted: frozenset[str] = frozenset()
        self._seen: object = None
        self._looked_at = float("-inf")
        self._is_asking = False

    def poll(self) -> None:
        """Take what has arrived, and notice a change of the list."""
        if self._is_here and time.monotonic() - self._looked_at >= LOOK_S:
            self._look()
        states = tuple(watch.state for watch in self._watches)
        if len(states) == len(self.states) and all(map(_is_same, states, self.states)):
            self.is_urgent = False
            return
        self.is_urgent = list(map(_lasting, states)) != list(map(_lasting, self.states))
        self.states = states
        self._survey()

    def want(self, devices: Collection[str]) -> bool:
        """Keep these devices in the surveys even while their hosts are silent; return whether they are others."""
        wanted = frozenset(devices)
        if wanted == self._wanted:
            return False
        self._wanted = wanted
        self._survey()
        return True

    def held_by(self) -> dict[str, str]:
        """Return by device the program that uses most of it, as the hosts tell it."""
        return {
            full_name(state.host.name, device): use.program
            for state in self.states
            for device, use in state.uses.by_device.items()
            if use.program
        }

    def new_samples(self) -> list[Sample]:
        """Return the samples that arrived since the last call, per device in order of time."""
        return [sample for watch in self._watches for sample in watch.new_samples()]

    def ask(self, *, asking: bool) -> None:
        """Ask the hosts from now on, or no more. What is known of them stays."""
        if asking is not self._is_asking:
            self._is_asking = asking
            for watch in self._watches:
                if asking:
                    watch.begin()
                else:
                    watch.end()

    def retry(self, name: str = "") -> None:
        """Ask a host that is not reachable again now; without a name, all of them."""
        for watch in self._watches:
            if not name or watch.host.name == name:
                watch.retry()

    def look_soon(self) -> None:
        """Read the list of hosts at the next poll if it has changed."""
        self._looked_at = float("-inf")

    def close(self) -> None:
        """Ask no more, and wait until nothing is left of the connections."""
        self.ask(asking=False)
        deadline = time.monotonic() + END_S
        for watch in (*self._watches, *self._removed):
            watch.join(max(0.0, deadline - time.monotonic()))

    def _look(self) -> None:
        self._looked_at = time.monotonic()
        seen = None
        with contextlib.suppress(OSError):
            stat = (config_folder() / HOSTS_FILE).stat()
            seen = stat.st_mtime_ns, stat.st_size, stat.st_ino
        if seen != self._seen:
            self._seen = seen
            self._read()

    def _read(self) -> None:
        """Follow the hosts of the list; those that are in it as before go on."""
        from core.hosts.host_list import load  # only where there is, or was, a host
        from core.hosts.watch import HostWatch

        listed = load()
        self.problem = listed.problem
        known = {watch.host: watch for watch in self._watches}
        for host in known.keys() - {*listed.hosts}:
            known[host].end()
            self._removed.append(known[host])
        new = {host: HostWatch(host) for host in listed.hosts if host not in known}
        self._watches = [{**known, **new}[host] for host in listed.hosts]
        for watch in new.values() if self._is_asking else ():
            watch.begin()

    def _survey(self) -> None:
        if not self.states:
            self.surveys = ()
            return
        from gui.viewmodels.devices.host_devices import usable_survey  # likewise

        by_host: dict[str, list[str]] = {}
        for device in sorted(self._wanted):
            parts = split_name(device)
            by_host.setdefault(parts[0] if parts else "", []).append(device)
        self.surveys = tuple(usable_survey(state, by_host.get(state.host.name, ())) for state in self.states)


def _is_same(state: HostState, before: HostState) -> bool:
    return state is before


def _lasting(state: HostState) -> object:
    """Return a state without what changes by itself all the time."""
    return replace(state, clock=None, survey=Survey(devices=state.survey.devices, banner=state.survey.banner))
