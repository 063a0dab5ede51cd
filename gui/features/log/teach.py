"""Teach what a number in the log is, by pointing at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLineEdit, QPushButton, QWidget

from core.errors import RunError
from core.language import join_sentences, tr, tr_noop
from core.metrics.rules import METRIC, STEP, number_at
from core.text import one_line
from gui.base.jobs import Jobs, reason
from gui.base.theme import current_theme, mark
from gui.features.log.highlights import LogNumbers
from gui.widgets.dialogs import MARGINS_PX
from gui.widgets.layouts import vbox
from gui.widgets.plain_text import PlainLabel, named
from gui.window.feature import Feature

if TYPE_CHECKING:
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
    """Whether the rule is kept, and the curves are read again when the run is over."""


def _answer(pointed: Pointed, *, keep: bool) -> Answer:
    from core.metrics import teaching  # loads numpy

    try:
        teacher = teaching.Teacher(pointed.run_dir, pointed.rank)
        name, role, waits = "", pointed.role, False
        if role == METRIC.strip():
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


WIDTH_PX, CURVE_PX = 520, 110
MARGIN_PX = 6
SHOWN_CHARACTERS = 200


class CurvePreview(QWidget):
    """Draws one small curve without axes."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "curvePreview", tr("The curve that the rule gives"))
        self.setFixedHeight(CURVE_PX)
        self.points: Sequence[tuple[int, float]] = ()

    def show_points(self, points: Sequence[tuple[int, float]]) -> None:
        """Draw these steps and values."""
        self.points = points
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 (Qt's signature)
        """Draw the curve over the whole width."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), QColor(current_theme().field))
        finite = [(step, value) for step, value in self.points if abs(value) < float("inf")]
        if finite:
            painter.setPen(QPen(QColor(current_theme().train), 1.6))
            drawn = [self._place(finite, *point) for point in finite]
            painter.drawPolyline(QPolygonF(drawn)) if len(drawn) > 1 else painter.drawEllipse(drawn[0], 2, 2)
        painter.end()

    def _place(self, points: Sequence[tuple[int, float]], step: int, value: float) -> QPointF:
        steps, values = [each for each, _ in points], [each for _, each in points]
        across, up = max(steps) - min(steps) or 1, max(values) - min(values) or 1
        width, height = self.width() - 2 * MARGIN_PX, self.height() - 2 * MARGIN_PX
        return QPointF(
            MARGIN_PX + width * (step - min(steps)) / across, MARGIN_PX + height * (1 - (value - min(values)) / up)
        )


class TeachDialog(QDialog):
    """Does not block the window. `named` asks for another name, `keep_asked` to keep what is shown."""

    named = Signal(str)
    keep_asked = Signal(str)

    def __init__(self, parent: QWidget, *, line: str, heading: str, has_name: bool) -> None:
        super().__init__(parent)
        named(self, "teachDialog").setWindowTitle("Trainyard")
        title, shown = PlainLabel(heading, role="heading"), PlainLabel(one_line(line, SHOWN_CHARACTERS))
        mark(shown, tone="muted")
        self.edit = named(QLineEdit(), "metricNameEdit", tr("Name of the metric"))
        self.edit.setPlaceholderText(tr("name of the metric"))
        self.edit.setVisible(has_name)
        self.words = PlainLabel(tr("Reading the log ..."), name="teachWords", selectable=True)
        self.curve = CurvePreview()
        self.curve.setVisible(has_name)
        for label in (title, shown, self.words):
            label.setWordWrap(True)
            label.setFixedWidth(WIDTH_PX)
        self.keep = named(QPushButton(tr("Keep")), "keepRuleButton")
        self.keep.setEnabled(False)
        mark(self.keep, role="primary")
        cancel = QPushButton(tr("Cancel"))
        cancel.setAutoDefault(False)
        buttons = QDialogButtonBox()
        buttons.addButton(self.keep, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.addButton(cancel, QDialogButtonBox.ButtonRole.RejectRole)
        buttons.rejected.connect(self.reject)
        self.keep.clicked.connect(self._keep)
        self.edit.textEdited.connect(self._rename)
        self.finished.connect(self.deleteLater)
        vbox(self, title, shown, self.edit, self.curve, self.words, buttons, gap=12, margins=MARGINS_PX)

    def show_lesson(self, name: str, rule: str, sentences: Sequence[str], points: Sequence[tuple[int, float]]) -> None:
        """Show a rule and what it gives."""
        if not self.edit.isModified() and name:
            self.edit.setText(name)
            self.edit.selectAll()
        self.words.setText("\n".join([tr("Rule: {rule}", rule=rule), *sentences]))
        mark(self.words, tone="")
        self.curve.show_points(points)
        self.keep.setEnabled(True)
        self.adjustSize()

    def show_problem(self, sentence: str) -> None:
        """Show why there is no rule, or why it was not kept."""
        self.words.setText(sentence)
        mark(self.words, tone="bad")
        self.curve.show_points(())
        self.keep.setEnabled(False)

    def _rename(self, text: str) -> None:
        self.keep.setEnabled(False)  # until the curve of this name is there
        if text.strip():
            self.named.emit(text.strip())

    def _keep(self) -> None:
        self.keep.setEnabled(False)
        self.keep_asked.emit(self.edit.text().strip())


THERE = tr_noop("Rules are kept beside the script, which is on {host}. Open the window there to teach the log.")


class TeachController(Feature):
    """One dialog at a time."""

    def set_up(self) -> None:
        self._log = self.panels.details.log
        self._teaching, self._rereading = Jobs(self, "teaching"), Jobs(self, "rereading")
        self._dialog: TeachDialog | None = None
        self._pointed: Pointed | None = None
        self._waiting: Path | None = None
        """A live run with a new rule: its curves are read again when it is over."""
        self._session.attached.connect(self._show_numbers)
        self._log.rank_shown.connect(self._show_numbers)
        self._log.view.highlights.pointed.connect(self._point)
        self._session.changed.connect(self._reread_if_over)

    def poll(self) -> None:
        """Show what was printed since."""
        self._log.follow()

    def _reread_if_over(self) -> None:
        """Read the curves again of a run that was taught while it was live, once it has ended and if it is shown."""
        run = self._session.run
        if run is not None and run.dir == self._waiting and not self._session.live:
            run_dir, self._waiting = run.dir, None
            self._rereading.add(
                lambda: _reread(run_dir),
                lambda _: self._show_curves(run_dir),
                lambda error: self.panels.message.show_message(reason(error), "bad"),
            )

    def _show_numbers(self) -> None:
        """Mark the numbers of the log of a script."""
        spec, run_series = self._session.spec, self._session.run_series
        script = spec.script if spec is not None else None
        if script is None or run_series is None:
            self._log.view.highlights.show_numbers(None)
            return
        self._log.view.highlights.show_numbers(LogNumbers(run_series, script.rules, self._log.rank))

    def _point(self, line: str, position: int, role: str) -> None:
        """Open the dialog for a number, and try it."""
        run = self._session.run
        if run is None or self._dialog is not None:
            return
        if not self._machine.is_here:
            self.panels.message.show_message(tr(THERE, host=self._machine.host), "warn")
            return
        begin, end = number_at(line, position) or (position, position)
        number, is_metric = line[begin:end], role == METRIC.strip()
        if is_metric:
            heading = tr("Plot {number} as a metric", number=number)
        elif role == STEP:
            heading = tr("{number} is the step", number=number)
        else:
            heading = tr("{number} is not a metric", number=number)
        dialog = TeachDialog(self.panels.window, line=line, heading=heading, has_name=is_metric)
        self._pointed = Pointed(run_dir=run.dir, rank=self._log.rank, line=line, position=position, role=role)
        dialog.named.connect(lambda name: self._ask(name, keep=False))
        dialog.keep_asked.connect(lambda name: self._ask(name, keep=True))
        dialog.finished.connect(lambda _: self._close())
        self._dialog = dialog
        dialog.open()
        self._ask("", keep=False)

    def _ask(self, name: str, *, keep: bool) -> None:
        assert self._pointed is not None
        pointed = self._pointed = replace(self._pointed, name=name)

        def fail(error: Exception) -> None:
            problem = tr("The rule could not be tried: {reason}.", reason=reason(error))
            self._take_answer(Answer(pointed=pointed, name=pointed.name, problem=problem))

        self._teaching.replace(lambda: _answer(pointed, keep=keep), self._take_answer, fail)

    def _close(self) -> None:
        self._dialog = self._pointed = None

    def _show_curves(self, run_dir: Path) -> None:
        """Show the new curves of a run."""
        self._run_list.reread(run_dir)
        self._session.reload(run_dir)

    def _take_answer(self, answer: Answer) -> None:
        if answer.is_kept:
            self.panels.message.show_passing(join_sentences(answer.sentences))
            if answer.waits:
                self._waiting = answer.pointed.run_dir
                self._reread_if_over()
            else:
                self._show_curves(answer.pointed.run_dir)
        if self._dialog is None or answer.pointed != self._pointed:
            return
        if answer.is_kept:
            self._dialog.accept()
        elif answer.lesson is None:
            self._dialog.show_problem(answer.problem)
        else:
            points = answer.lesson.curves.get(answer.name, ())
            self._dialog.show_lesson(answer.name, str(answer.lesson.rule), answer.sentences, points)
