"""Ask the driver through another process (`core.check.questions`). If the driver hangs, that process is ended."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

from core.check.outcome import CouldNotLook, NotApplicable
from core.language import tr
from core.system.helper_process import HelperProcess
from core.system.own_processes import QUESTIONS, own_command

ANSWER_S = 5.0
"""Seconds to wait for an answer."""
START_S = 30.0
"""Seconds to wait for the first one: a driver without persistence mode prepares each GPU for it."""


class Driver:
    """The client. A question that fails ends the process, and the next one starts another."""

    def __init__(self) -> None:
        self._process: HelperProcess | None = None
        self._never_answered = ""
        """Why the first question had no answer: the others would have none, either."""

    def ask(self, **question: Any) -> Any:  # noqa: ANN401 (each question has an answer of its own)
        """Return the answer of `core.check.questions`.

        Raises `NotApplicable` without a driver, and `CouldNotLook` if it fails as a whole.
        """
        if self._never_answered:
            raise CouldNotLook(self._never_answered)
        is_first = self._process is None
        limit_s = START_S if is_first else ANSWER_S
        answer = self._answer(json.dumps(question).encode() + b"\n", limit_s)
        if answer is None:
            how = self._process.ending() if self._process else None
            self.close()
            why = tr("the driver ended the process that asked it with {how}", how=how) if how else tr(
                "the driver did not answer in {seconds:g} s", seconds=limit_s)
            self._never_answered = why if is_first else ""
            raise CouldNotLook(why)
        if answer.get("absent"):
            raise NotApplicable(tr("this machine has no NVIDIA driver"))
        if "error" in answer:
            remedy = tr(answer["remedy"]) if answer["remedy"] else ""
            raise CouldNotLook(tr("the driver says “{words}”", words=answer["error"]), remedy)
        return answer["answer"]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _answer(self, line: bytes, limit_s: float) -> dict[str, Any] | None:
        try:
            if self._process is None:
                self._process = HelperProcess(own_command(QUESTIONS), stdin=True)
        except OSError as error:
            raise CouldNotLook(tr("no process could be started to ask the driver: {error}", error=error)) from error
        self._process.send(line)
        deadline = time.monotonic() + limit_s
        while (left_s := deadline - time.monotonic()) > 0:
            is_open = self._process.receive(left_s)
            for answer in self._process.read_lines():
                found = json.loads(answer)
                assert isinstance(found, dict)
                return found
            if not is_open:  # it ends: how is known a moment later
                with contextlib.suppress(TimeoutError):
                    self._process.wait(limit_s)
                return None
        return None
