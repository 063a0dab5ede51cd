"""What would end a program at once, said before it is started: the chosen Python is asked, once for all of it."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.pythons.cache import ProbeCache
from core.pythons.facts import MIN_FOR_SCRIPTS, PythonInfo, parse_info
from core.pythons.probe_process import NAP_S, TIMEOUT_S, PythonProbe
from core.scripts.analysis import FRAMEWORKS, ScriptAnalysis
from core.scripts.missing_packages import beside, lacking, nearby

if TYPE_CHECKING:
    from collections.abc import Mapping

FAILED_S = 10.0
"""So long it is believed that an interpreter does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    sentence: str
    until: float
    """In seconds of `time.monotonic`."""


@dataclass(slots=True)
class ProblemCache:
    """What was asked already: kept until the interpreter, its packages, the program's files or its folder change."""

    answers: ProbeCache = field(default_factory=ProbeCache)
    failures: dict[str, _Failure] = field(default_factory=dict)


_MEMORY = ProblemCache()


class Checking:
    """The question what a program lacks, on its way. `close` it in any case: it then leaves no process."""

    def __init__(
        self, look: ScriptAnalysis, *, python: str, cwd: str, variables: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S, memory: ProblemCache | None = None, least: tuple[int, int] = MIN_FOR_SCRIPTS,
    ) -> None:  # fmt: skip
        self._look, self._python, self._memory, self._least = look, python, memory or _MEMORY, least
        self._question = {"folder": look.folder, "modules": list(look.modules), "files": list(look.files)}
        self._key = json.dumps([self._question, sorted((variables or {}).items())])
        self._inquiry: PythonProbe | None = None
        self._found: list[str] | None = None
        self._working = Path(os.path.expanduser(cwd))  # noqa: PTH111 (the other one raises for a user who is none)
        self._gone = [] if os.path.isdir(self._working) else [_gone(self._working)]  # noqa: PTH112 (the other one raises)
        answer, failure = self._memory.answers.get(python, self._key), self._memory.failures.get(python)
        if answer is not None:
            self._found = self._sentences(answer)
        elif failure is not None and time.monotonic() < failure.until:
            self._found = [failure.sentence]
        else:
            self._ask(dict(variables or {}), timeout_s)

    def poll(self) -> list[str] | None:
        """The sentences, none for a program that can be started; None while they are not known. Never waits."""
        if self._inquiry is not None:
            try:
                answer = self._inquiry.poll()
            except ValueError as error:
                self._fail(error)
            else:
                if answer is None:
                    return None
                self._memory.answers.put(self._python, answer, self._key, [*self._look.files, self._look.folder])
                self._found, self._inquiry = self._sentences(answer), None
        assert self._found is not None
        return [*self._gone, *self._found]

    def close(self) -> None:
        """End what is under way."""
        if self._inquiry is not None:
            self._inquiry.close()

    def _ask(self, variables: dict[str, str], timeout_s: float) -> None:
        try:
            self._inquiry = PythonProbe(self._python, self._question, variables=variables, timeout_s=timeout_s)
        except ValueError as error:  # there is nothing to be started: that is seen as quickly the next time
            self._found = [str(error)]

    def _fail(self, error: ValueError) -> None:
        self._memory.failures[self._python] = _Failure(sentence=str(error), until=time.monotonic() + FAILED_S)
        self._found, self._inquiry = [str(error)], None

    def _sentences(self, answer: Mapping[str, Any]) -> list[str]:
        told = parse_info(self._python, answer)
        too_old = told.too_old(self._least)
        if too_old:
            return [too_old]
        errors = answer.get("errors", {})
        wrong = [_wrong(self._look, path, told, error) for path, error in errors.items()]
        missing = [name for name in answer.get("missing", []) if not self._look.finds_more or name in FRAMEWORKS]
        near = nearby([name for name in missing if name not in FRAMEWORKS], Path(self._look.folder), self._working)
        return [*wrong, *beside(self._look.name, near), *lacking(self._look.name, missing, told, near)]


def problems(
    look: ScriptAnalysis, *, python: str, cwd: str, variables: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S, memory: ProblemCache | None = None, least: tuple[int, int] = MIN_FOR_SCRIPTS,
) -> list[str]:  # fmt: skip
    """What would end this program at once under this Python, a sentence each with the remedy; none when all is well.

    Waits for the Python's answer for `timeout_s` at most, and only where it was not asked the same before; `Checking`
    is the same without waiting. `variables` come on top of this process's environment; a Python before `least` is too
    old.
    """
    checking = Checking(
        look, python=python, cwd=cwd, variables=variables, timeout_s=timeout_s, memory=memory, least=least
    )
    try:
        while (found := checking.poll()) is None:
            time.sleep(NAP_S)
    finally:
        checking.close()
    return found


def _gone(working: Path) -> str:
    what = "is no folder" if os.path.lexists(working) else "is gone"
    return f"The working folder {working} {what}. Choose another."


def _wrong(look: ScriptAnalysis, path: str, told: PythonInfo, error: Mapping[str, Any]) -> str:
    name = look.name if path == look.file else _called(path, look)
    line, words = error.get("line"), str(error.get("words") or "").rstrip(".")
    where = f" in line {line}" if line else ""
    return (
        f"{name} has a syntax error{where}: {words} ({told.title}). "
        "Correct it, or choose the Python that it was written for."
    )


def _called(path: str, look: ScriptAnalysis) -> str:
    return os.path.relpath(path, look.folder) if path.startswith(f"{look.folder}/") else path
