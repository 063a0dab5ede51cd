"""Try in the background what the user says about a number of the log, and keep it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from core.errors import RunError
from core.language import tr
from core.metrics.rules import rule
from gui.services.jobs import Jobs, reason

if TYPE_CHECKING:
    from pathlib import Path

    from core.metrics.teaching import Lesson


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointed:
    """A number that the user pointed at."""

    run_dir: Path
    rank: int
    line: str
    position: int
    role: str
    """A role of a rule; for a metric `metric`, and its name is `name`."""
    name: str = ""
    """The empty string: the words before the number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of it."""

    pointed: Pointed
    lesson: Lesson | None = None
    name: str = ""
    """The name of the metric."""
    sentences: tuple[str, ...] = ()
    problem: str = ""
    """Why no rule can be made or kept: a sentence."""
    is_kept: bool = False
    waits: bool = False
    """Whether it is kept, but the run is not over, so that its curves are read anew later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAnew:
    """The curves of a run were read anew."""

    run_dir: Path
    problem: str = ""
    """Why they were not: a sentence."""


class RuleTeacher(QObject):
    """Of several requests that come while one is under way, the last one is answered."""

    answered = Signal(object)
    """An `Answer`."""
    read_anew = Signal(object)
    """A `ReadAnew`."""

    def __init__(self) -> None:
        super().__init__()
        self._teaching, self._rereading = Jobs(self, "teaching"), Jobs(self, "rereading")

    def ask(self, pointed: Pointed, *, keep: bool = False) -> None:
        """Try a rule for this number; keep it, and read the curves of the run again."""
        self._teaching.replace(
            lambda: _answer(pointed, keep=keep),
            self.answered.emit,
            lambda error: self.answered.emit(_failed(pointed, error)),
        )

    def reread(self, run_dir: Path) -> None:
        """Read the curves of a run again from its logs. The run must have ended."""
        self._rereading.add(
            lambda: _reread(run_dir),
            lambda _: self.read_anew.emit(ReadAnew(run_dir=run_dir)),
            lambda error: self.read_anew.emit(ReadAnew(run_dir=run_dir, problem=reason(error))),
        )


def _answer(pointed: Pointed, *, keep: bool) -> Answer:
    from core.metrics import teaching  # loads numpy

    try:
        teacher = teaching.Teacher(pointed.run_dir, pointed.rank)
        name, role, waits = "", pointed.role, False
        if role == rule.METRIC.strip():
            name = pointed.name or teacher.propose_name(pointed.line, pointed.position)
            role = teaching.metric(name)
        lesson = teacher.teach(pointed.line, pointed.position, role)
        sentences = (*teaching.describe(lesson), *lesson.problems)
        kept = teacher.keep(lesson) if keep else None
        if kept is not None:
            sentences, waits = (teaching.describe_kept(kept),), kept.reread is None
    except (ValueError, RunError) as error:
        return Answer(pointed=pointed, name=pointed.name, problem=str(error))
    return Answer(pointed=pointed, lesson=lesson, name=name, sentences=sentences, is_kept=keep, waits=waits)


def _reread(run_dir: Path) -> None:
    from core.metrics.reread import reread  # loads numpy

    reread(run_dir)


def _failed(pointed: Pointed, error: Exception) -> Answer:
    problem = tr("The rule could not be tried: {reason}.", reason=reason(error))
    return Answer(pointed=pointed, name=pointed.name, problem=problem)
