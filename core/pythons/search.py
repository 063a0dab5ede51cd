"""Find and ask all Pythons in the background of a caller that polls: with processes, without threads or waiting."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.pythons.discovery import Found, find_pythons, identity_of
from core.pythons.python_info import TIMEOUT_S, ProbeCache, PythonInfo, PythonProbe, default_file, parse_info

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_PROBES = 2
"""Number of Pythons that are asked at the same time: training may run on the same machine."""
FIND_S = 0.005
"""Seconds of searching the file system per poll."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPython:
    """A Python and what is known about it. With neither `info` nor `problem` it was not asked yet."""

    found: Found
    info: PythonInfo | None = None
    problem: str = ""
    """A sentence why it cannot be used, or the empty string."""


class PythonSearch:
    """Finds and asks. `close` it in the end: it leaves no process."""

    def __init__(
        self,
        cache: ProbeCache | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        max_probes: int = MAX_PROBES,
        variables: Mapping[str, str] = os.environ,
    ) -> None:
        self._cache = cache or ProbeCache(default_file())
        self._timeout_s, self._max_probes, self._variables = timeout_s, max_probes, variables
        self._finding: Iterator[Found] | None = None
        self._entries: dict[str, FoundPython] = {}
        """By identity, in the order in which they were found."""
        self._waiting: list[str] = []
        self._probes: dict[str, PythonProbe] = {}

    @property
    def done(self) -> bool:
        """Whether every Python is found and asked."""
        return self._finding is None and not self._waiting and not self._probes

    def start(self, near: Path | None = None) -> None:
        """Start, or restart near another folder; answers so far are kept."""
        self._stop()
        self._entries = {}
        self._finding = find_pythons(near, variables=self._variables)

    def add(self, path: str) -> None:
        """Also ask the Python at a path that the user chose (see `discovery.locate_python`)."""
        self._add(Found(path=path, place="chosen", title="chosen"))

    def poll(self) -> list[FoundPython]:
        """Return all that is known by now, in the order of the places. Never waits."""
        self._find()
        for name, probe in list(self._probes.items()):
            self._poll_probe(name, probe)
        while self._waiting and len(self._probes) < self._max_probes:
            self._ask(self._waiting.pop(0))
        if self.done:
            self._cache.save()
        return list(self._entries.values())

    def close(self) -> None:
        """End the probes under way, and save the answers."""
        self._stop()
        self._cache.save()

    def _stop(self) -> None:
        self._finding = None
        self._waiting = []
        for probe in self._probes.values():
            probe.close()
        self._probes = {}

    def _find(self) -> None:
        until = time.monotonic() + FIND_S
        while self._finding is not None and time.monotonic() < until:
            found = next(self._finding, None)
            if found is None:
                self._finding = None
            else:
                self._add(found)

    def _add(self, found: Found) -> None:
        name = identity_of(Path(found.path))
        if name in self._entries:
            return
        answer = self._cache.get(found.path)
        self._entries[name] = _entry(found, answer) if answer else FoundPython(found=found)
        if answer is None:
            self._waiting.append(name)

    def _ask(self, name: str) -> None:
        try:
            self._probes[name] = PythonProbe(self._entries[name].found.path, timeout_s=self._timeout_s)
        except ValueError as error:
            self._fail(name, error)

    def _poll_probe(self, name: str, probe: PythonProbe) -> None:
        found = self._entries[name].found
        try:
            answer = probe.poll()
        except ValueError as error:
            del self._probes[name]
            self._fail(name, error)
            return
        if answer is not None:
            del self._probes[name]
            self._cache.put(found.path, answer)
            self._entries[name] = _entry(found, answer)

    def _fail(self, name: str, error: ValueError) -> None:
        self._entries[name] = FoundPython(found=self._entries[name].found, problem=str(error))


def _entry(found: Found, answer: Mapping[str, Any]) -> FoundPython:
    info = parse_info(found.path, answer)
    return FoundPython(found=found, info=info, problem=info.too_old() or "")
