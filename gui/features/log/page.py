"""The tab Log, and teaching what a number in it is, by pointing at it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QComboBox, QDialogButtonBox, QLineEdit, QPushButton, QWidget

from core.errors import RunError
from core.language import join_sentences, tr, tr_noop
from core.metrics.rules import METRIC, NO_METRIC, STEP, number_at
from core.schema.paths import log_of_rank
from core.text import one_line
from gui.base.jobs import Jobs, reason
from gui.base.theme import mark
from gui.features.log.files import FileSearch, file_size, lines_after, lines_before
from gui.features.log.highlights import LogNumbers
from gui.features.log.view import LogView, SearchBar
from gui.widgets.buttons import compact_button, compact_check, push_button
from gui.widgets.dialogs import MARGINS_PX, ScreenDialog
from gui.widgets.fields import ChoiceBox, row_of
from gui.widgets.layouts import vbox
from gui.widgets.plain_text import PlainLabel, named
from gui.window.feature import Feature

if TYPE_CHECKING:
    from core.metrics.teaching import Lesson

RECOUNT_S = 0.5
"""Seconds between two counts of the matches while the log grows."""
SPACING_PX = 8
"""Room between two of the controls."""


class LogPage(QWidget):
    """Shows the log of one rank. `controls` is laid out in the heading of the card."""

    rank_shown = Signal()
    """The log of another rank is shown from now on."""

    def __init__(self) -> None:
        super().__init__()
        self.view = LogView()
        self.search = SearchBar()
        self.rank_box = named(ChoiceBox(), "rankBox", tr("Rank"), tr("Process whose output is shown"), compact=True)
        self.rank_box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        follow = tr("Follow the end of the log; scrolling up stops this, scrolling to the end resumes it")
        self.follow_box = compact_check("followBox", tr("Follow"), follow, checked=True)
        tip, search = tr("Search in the log (Ctrl+F)"), self.search.open_search
        self.search_button = compact_button("searchButton", tr("Search"), tip, role="flat", does=search)
        self.controls = row_of(self.rank_box, self.search_button, self.follow_box, spacing_px=SPACING_PX)
        self._file_search = FileSearch(self)
        earlier, later = self.view.show_earlier, self.view.show_later
        self._show_earlier = compact_button("earlierButton", tr("Show earlier lines"), role="link", does=earlier)
        self._open_file = compact_button("openLogButton", tr("Open the whole log"), role="link", does=self._open)
        self._show_later = compact_button("laterButton", tr("Show later lines"), role="link", does=later)
        self.links = row_of(self._show_earlier, self._show_later, self._open_file, spacing_px=4)
        self._run_dir: Path | None = None
        self._ranks = 1
        self._counted: tuple[int, float] = (-1, 0.0)
        self._told = 0
        """Matches in the file when they were last shown."""
        layout = vbox(self, self.search, gap=2)
        layout.addWidget(self.links, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addWidget(self.view, 1)
        self._connect()

    def show_run(self, run_dir: Path | None) -> None:
        """Show the log of another run, rank 0 first; None shows nothing. The same run stays where it is."""
        if run_dir is not None and run_dir == self._run_dir:
            return
        self._run_dir = run_dir
        self._offer_ranks(1)
        self._show_rank()

    def show_empty_words(self, text: str) -> None:
        """Set the text of an empty log."""
        self.view.setPlaceholderText(text)

    def show_line(self, rank: int, sought: str) -> None:
        """Select the last line of a rank's log that contains a text; go to the end of the log if there is none."""
        if rank < self.rank_box.count():
            self.rank_box.setCurrentIndex(rank)
        self.view.setFocus()
        self.view.search(sought)
        if not self.view.find_again(backwards=True):
            self.view.set_follows(True)
        self.view.search(self.search.field.text() if not self.search.isHidden() else "")

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Open the search with Ctrl+F; in the window an action of the menu does so from everywhere."""
        if event.matches(QKeySequence.StandardKey.Find):
            self.search.open_search()
        elif event.key() == Qt.Key.Key_Escape and self.view.highlights.points:
            self.view.highlights.set_points(False)
        elif event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter} and self.view.highlights.points:
            self.view.highlights.point_at(self.view.textCursor())
        else:
            super().keyPressEvent(event)

    def follow(self) -> None:
        """Read new text and new ranks."""
        count = self._ranks
        while self._run_dir is not None and log_of_rank(self._run_dir, count).exists():
            count += 1
        if count != self._ranks:
            self._offer_ranks(count)
        self.view.follow()
        revision, counted_at = self._counted
        if self.search.isHidden() or time.monotonic() - counted_at < RECOUNT_S:
            return
        self._file_search.go_on()
        if revision != self.view.revision or self._told != self._file_search.count:
            self._count()

    def _connect(self) -> None:
        self.rank_box.currentIndexChanged.connect(lambda _: self._show_rank())
        self.follow_box.toggled.connect(self.view.set_follows)
        self.view.follow_changed.connect(self.follow_box.setChecked)
        after, before = QKeySequence.StandardKey.FindNext, QKeySequence.StandardKey.FindPrevious
        QShortcut(QKeySequence(after), self).activated.connect(lambda: self._step(backwards=False))
        QShortcut(QKeySequence(before), self).activated.connect(lambda: self._step(backwards=True))
        self.search.changed.connect(self._search)
        self.search.step_asked.connect(self._step)
        self.search.closed.connect(self._end_search)
        self.view.part_changed.connect(self._show_links)
        self._show_links()

    def _show_links(self) -> None:
        """Offer the lines that are missing."""
        self.links.setVisible(self._has_more)
        self._show_earlier.setVisible(self.view.has_earlier)
        self._show_later.setVisible(self.view.has_later)

    def _open(self) -> None:
        """Open the whole log with the program that the desktop has for texts."""
        if self._file is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._file)))

    @property
    def rank(self) -> int:
        """The rank whose log is shown."""
        return max(self.rank_box.currentIndex(), 0)

    @property
    def _file(self) -> Path | None:
        return log_of_rank(self._run_dir, self.rank) if self._run_dir else None

    # -- ranks -------------------------------------------------------------------------------------

    def _show_rank(self) -> None:
        self.view.show_file(self._file)
        self._file_search.start(self._file, "" if self.search.isHidden() else self.search.field.text())
        self._show_links()
        self.rank_shown.emit()
        self.view.follow()

    def _offer_ranks(self, count: int) -> None:
        self._ranks = count
        self.rank_box.blockSignals(True)
        while self.rank_box.count() > count:
            self.rank_box.removeItem(count)
        for rank in range(self.rank_box.count(), count):
            self.rank_box.addItem(tr("rank {rank}", rank=rank))
        if count == 1:
            self.rank_box.setCurrentIndex(0)
        self.rank_box.blockSignals(False)
        self.rank_box.setVisible(count > 1)

    # -- searching -----------------------------------------------------------------------------

    def _search(self, text: str) -> None:
        self.view.search(text)
        self._file_search.start(self._file, text)
        if text:
            self.view.find_again(backwards=True, stay=True)  # start at the end: the latest output matters most
        self._count()

    def _end_search(self) -> None:
        self.view.setFocus()
        bar = self.view.verticalScrollBar()
        at_end = bar.value() >= bar.maximum() and not self.view.has_later
        self.view.set_follows(self.view.follows or at_end)

    def _step(self, backwards: bool) -> None:
        """Go to the next match, or to the previous one, which may be in a part of the file that is not shown."""
        if not self.search.field.text() or self.search.isHidden() or self.view.arriving:
            return
        has_more = self._has_more
        if not self.view.find_again(backwards=backwards, around=not has_more) and has_more:
            if self._leave_part(backwards=backwards):
                return
            self.view.find_again(backwards=backwards)
        self._count()

    @property
    def _has_more(self) -> bool:
        """Whether the file has lines that are not shown."""
        return self.view.has_earlier or self.view.has_later

    def _leave_part(self, *, backwards: bool) -> bool:
        """Show the part of the file with the next match, and select it there; return whether there is one."""
        file, (begin, end), search = self._file, self.view.part, self._file_search
        if file is None:
            return False
        size = file_size(file)
        beyond = search.before(begin) if backwards else search.after(size if end is None else end)
        around = search.before(size) if backwards else search.after(0)
        found = around if beyond is None else beyond
        if found is None:
            return False
        first = lines_before(file, found, 0)  # the line of the match is the last of its part, or the first
        if backwards:
            last = lines_after(file, first, 1)
            part = lines_before(file, last), last
        else:
            part = first, lines_after(file, first)

        def find() -> None:
            self.view.find_first(backwards=backwards)
            self._count()

        self.view.show_part(*part, arrived=find)
        return True

    def _count(self) -> None:
        at, here = self.view.matches()
        self._told = self._file_search.count
        in_file = self._told if self._has_more else None
        self.search.show_matches(at, here, in_file)
        self._counted = (self.view.revision, time.monotonic())


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

    lesson: Lesson
    name: str
    """The name of the metric."""
    sentences: tuple[str, ...]
    waits: bool
    """Whether the rule is kept, and the curves are read again when the run is over."""


def _answer(pointed: Pointed, *, keep: bool) -> Answer:
    """Try the rule for a number, and keep it if asked to. Raises `ValueError` or `RunError` with a sentence."""
    from core.metrics import teaching  # loads numpy

    teacher = teaching.Teacher(pointed.run_dir, pointed.rank)
    name, role = "", pointed.role
    if role == METRIC.strip():
        name = pointed.name or teacher.propose_name(pointed.line, pointed.position)
        role = teaching.metric(name)
    lesson = teacher.teach(pointed.line, pointed.position, role)
    if not keep:
        return Answer(
            lesson=lesson, name=name, sentences=(*teaching.describe(lesson), *lesson.problems), waits=False
        )
    kept = teacher.keep(lesson)
    return Answer(lesson=lesson, name=name, sentences=(teaching.describe_kept(kept),), waits=kept.reread is None)


def _reread(run_dir: Path) -> None:
    from core.metrics.reread import reread  # loads numpy

    reread(run_dir)


WIDTH_PX, CURVE_PX = 520, 110
SHOWN_CHARACTERS = 200


class TeachDialog(ScreenDialog):
    """Does not block the window. `named` asks for another name, `keep_asked` to keep what is shown."""

    named = Signal(str)
    keep_asked = Signal(str)

    def __init__(self, parent: QWidget, *, line: str, heading: str, has_name: bool) -> None:
        from gui.plots.metric_cards import SmallCurve  # loads pyqtgraph

        super().__init__(parent)
        named(self, "teachDialog").setWindowTitle("Trainyard")
        title, shown = PlainLabel(heading, role="heading"), PlainLabel(one_line(line, SHOWN_CHARACTERS))
        mark(shown, tone="muted")
        self.edit = named(QLineEdit(), "metricNameEdit", tr("Name of the metric"))
        self.edit.setPlaceholderText(tr("name of the metric"))
        self.edit.setVisible(has_name)
        self.words = PlainLabel(tr("Reading the log ..."), name="teachWords", selectable=True)
        self.curve = named(SmallCurve(), "curvePreview", tr("The curve that the rule gives"))
        self.curve.setFixedHeight(CURVE_PX)
        self.curve.setVisible(has_name)
        for label in (title, shown, self.words):
            label.setWordWrap(True)
            label.setFixedWidth(WIDTH_PX)
        self.keep = named(QPushButton(tr("Keep")), "keepRuleButton", role="primary")
        self.keep.setEnabled(False)
        cancel = push_button("", tr("Cancel"))
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
        self.curve.show_lines({"train": [*zip(*points, strict=True)]} if points else {})
        self.keep.setEnabled(True)
        self.adjustSize()

    def show_problem(self, sentence: str) -> None:
        """Show why there is no rule, or why it was not kept."""
        self.words.setText(sentence)
        mark(self.words, tone="bad")
        self.curve.show_lines({})
        self.keep.setEnabled(False)

    def _rename(self, text: str) -> None:
        self.keep.setEnabled(False)  # until the curve of this name is there
        if text.strip():
            self.named.emit(text.strip())

    def _keep(self) -> None:
        self.keep.setEnabled(False)
        self.keep_asked.emit(self.edit.text().strip())


HEADINGS = {
    METRIC.strip(): tr_noop("Plot {number} as a metric"),
    STEP: tr_noop("{number} is the step"),
    NO_METRIC: tr_noop("{number} is not a metric"),
}
"""By role, what the dialog says that a number is."""
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
        self.panels.plots.teach_asked.connect(self._show_every_number)
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

    def _show_every_number(self) -> None:
        """Let the user click a number of the log."""
        self.panels.details.raise_log(self._log.rank, "")
        if not self._log.view.document().isEmpty():  # else it says so
            self._log.view.highlights.set_points(True)
            self.panels.message.show_passing(tr(
                "Click a number of the log to plot it, or move the cursor to it and press Enter. Escape ends this."
            ))

    def _point(self, line: str, position: int, role: str) -> None:
        """Open the dialog for a number, and try it."""
        run = self._session.run
        if run is None or self._dialog is not None:
            return
        if not self._machine.is_here:
            self.panels.message.show_message(tr(THERE, host=self._machine.host), "warn")
            return
        begin, end = number_at(line, position) or (position, position)
        heading = tr(HEADINGS[role], number=line[begin:end])
        dialog = TeachDialog(self.panels.window, line=line, heading=heading, has_name=role == METRIC.strip())
        self._pointed = Pointed(run_dir=run.dir, rank=self._log.rank, line=line, position=position, role=role)
        dialog.named.connect(lambda name: self._ask(name, keep=False))
        dialog.keep_asked.connect(lambda name: self._ask(name, keep=True))
        dialog.finished.connect(lambda _: self._close())
        self._dialog = dialog
        dialog.open()
        self._ask("", keep=False)

    def _ask(self, name: str, *, keep: bool) -> None:
        """Try a rule with this name of a metric, or keep it, and show what came of it."""
        assert self._pointed is not None
        pointed = self._pointed = replace(self._pointed, name=name)

        def take(answer: Answer) -> None:
            if keep:
                self._show_kept(pointed.run_dir, answer)
            if self._dialog is None or pointed != self._pointed:
                return
            if keep:
                self._dialog.accept()
            else:
                points = answer.lesson.curves.get(answer.name, ())
                self._dialog.show_lesson(answer.name, str(answer.lesson.rule), answer.sentences, points)

        def fail(error: Exception) -> None:
            if self._dialog is not None and pointed == self._pointed:
                problem = tr("The rule could not be tried: {reason}.", reason=reason(error))
                self._dialog.show_problem(str(error) if isinstance(error, (RunError, ValueError)) else problem)

        self._teaching.replace(lambda: _answer(pointed, keep=keep), take, fail)

    def _close(self) -> None:
        self._dialog = self._pointed = None

    def _show_curves(self, run_dir: Path) -> None:
        """Show the new curves of a run."""
        self._run_list.reread(run_dir)
        self._session.reload(run_dir)

    def _show_kept(self, run_dir: Path, answer: Answer) -> None:
        self._log.view.highlights.set_points(False)
        self.panels.message.show_passing(join_sentences(answer.sentences))
        if answer.waits:
            self._waiting = run_dir
            self._reread_if_over()
        else:
            self._show_curves(run_dir)
