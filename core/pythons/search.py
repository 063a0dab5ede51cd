"""The search for Pythons, in the background of whoever polls it: processes only, no thread, nothing that waits."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.pythons.cache import ProbeCache, default_file
from core.pythons.discovery import Found, find, identity_of
from core.pythons.facts import PythonInfo, parse_info
from core.pythons.probe_process import TIMEOUT_S, PythonProbe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

AT_ONCE = 2
"""So many are asked at the same time: training goes on beside it."""
LOOKING_S = 0.005
"""So long one poll looks for more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPython:
    """A Python, and what is known of it. With neither facts nor a sentence it is still being asked."""

    found: Found
    facts: PythonInfo | None = None
    sentence: str = ""
    """Why it cannot be used; empty when it can."""


class PythonSearch:
    """Finds and asks. `close` it in the end: it returns at once and leaves no process."""

    def __init__(
        self,
        remembered: ProbeCache | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        at_once: int = AT_ONCE,
        variables: Mapping[str, str] = os.environ,
    ) -> None:
        self._remembered = remembered or ProbeCache(default_file())
        self._timeout_s, self._at_once, self._variables = timeout_s, at_once, variables
        self._finding: Iterator[Found] | None = None
        self._entries: dict[str, FoundPython] = {}
        """By identity, in the order in which they were found."""
        self._waiting: list[str] = []
        self._asked: dict[str, PythonProbe] = {}

    @property
    def done(self) -> bool:
        """Whether all that is known now is all that will be."""
        return self._finding is None and not self._waiting and not self._asked

    def start(self, near: Path | None = None) -> None:
        """Begin, or begin anew near another folder; who has answered already is not asked again."""
        self._stop()
        self._entries = {}
        self._finding = find(near, variables=self._variables)

    def add(self, path: str) -> None:
        """Have one more asked: a path that somebody chose (see `locate`)."""
        self._take(Found(path=path, place="chosen", title="chosen"))

    def poll(self) -> list[FoundPython]:
        """All that is known by now, in the order of the places. Never waits."""
        self._look()
        for name, inquiry in list(self._asked.items()):
            self._hear(name, inquiry)
        while self._waiting and len(self._asked) < self._at_once:
            self._ask(self._waiting.pop(0))
        if self.done:
            self._remembered.save()
        return list(self._entries.values())

    def close(self) -> None:
        """End what is under way, and keep what was learned."""
        self._stop()
        self._remembered.save()

    def _stop(self) -> None:
        self._finding = None
        self._waiting = []
        for inquiry in self._asked.values():
            inquiry.close()
        self._asked = {}

    def _look(self) -> None:
        until = time.monotonic() + LOOKING_S
        while self._finding is not None and time.monotonic() < until:
            found = next(self._finding, None)
            if found is None:
                self._finding = None
            else:
                self._take(found)

    def _take(self, found: Found) -> None:
        name = identity_of(Path(found.path))
        if name in self._entries:
            return
        answer = self._remembered.get(found.path)
        self._entries[name] = _entry(found, answer) if answer else FoundPython(found=found)
        if answer is None:
            self._waiting.append(name)

    def _ask(self, name: str) -> None:
        try:
            self._asked[name] = PythonProbe(self._entries[name].found.path, timeout_s=self._timeout_s)
        except ValueError as error:
            self._fail(name, error)

    def _hear(self, name: str, inquiry: PythonProbe) -> None:
        found = self._entries[name].found
        try:
            answer = inquiry.poll()
        except ValueError as error:
            del self._asked[name]
            self._fail(name, error)
            return
        if answer is not None:
            del self._asked[name]
            self._remembered.put(found.path, answer)
            self._entries[name] = _entry(found, answer)

    def _fail(self, name: str, error: ValueError) -> None:
        self._entries[name] = FoundPython(found=self._entries[name].found, sentence=str(error))


def _entry(found: Found, answer: Mapping[str, Any]) -> FoundPython:
    told = parse_info(found.path, answer)
    return FoundPython(found=found, facts=told, sentence=told.too_old() or "")
