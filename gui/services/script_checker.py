"""Inquirer: finds out what a script is and whether it can be started, aside: its source and its Python are asked."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from core.config.script_check import ScriptCheckRequest, ScriptCheckResult, check_script

from .background_task import BackgroundTask, reason

MAX_KEPT = 64


class ScriptChecker(QObject):
    """One question at a time; `poll`, called at every beat, never waits."""

    answered = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[ScriptCheckRequest, ScriptCheckResult] = {}
        self._old: set[ScriptCheckRequest] = set()
        """What is to be asked anew; until that is answered, what was known is believed."""
        self._aside: BackgroundTask[ScriptCheckResult] = BackgroundTask("script")
        self._asked: ScriptCheckRequest | None = None

    def ask(self, question: ScriptCheckRequest) -> ScriptCheckResult | None:
        """What is known; None while it is being found out, of which `answered` then tells."""
        due = question not in self._known or question in self._old
        if due and self._aside.start(lambda: check_script(question), _failed):
            self._old.discard(question)
            self._asked = question
        return self._known.get(question)

    def ask_anew(self) -> None:
        """What was found out may not be true any more: files may have been edited, packages installed."""
        self._old = set(self._known)

    def forget(self) -> None:
        """Believe nothing of what was found out."""
        self._known.clear()

    def poll(self) -> None:
        """Take in what was found out."""
        answer = self._aside.poll()
        if answer is not None and self._asked is not None:
            while len(self._known) >= MAX_KEPT:
                del self._known[next(iter(self._known))]
            self._known[self._asked] = answer
            self.answered.emit()


def _failed(error: Exception) -> ScriptCheckResult:
    return ScriptCheckResult(problems=(f"The script could not be looked at: {reason(error)}. Choose it again.",))
