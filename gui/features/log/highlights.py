"""Mark the matches of a search and the numbers that became values of a metric."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAction,
    QColor,
    QContextMenuEvent,
    QHelpEvent,
    QMouseEvent,
    QTextBlock,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import QMenu, QTextEdit

from core.arrays import np
from core.language import tr
from core.metrics.rules import METRIC, NO_METRIC, NUMBER, STEP, RuleSet, nearest_number, numbers_of, usable_rules
from core.metrics.text.statements import statement_of
from core.series.run_series import RunSeries
from core.series.series import Series
from gui.base.colours import legible, parse
from gui.base.theme import current_theme, look
from gui.widgets.plain_text import menu_text, verbatim

if TYPE_CHECKING:
    from gui.features.log.view import LogView


VALIDATION = "val_"
RECENT = 20_000
"""Values at the end of a curve that are searched first: they are the ones of the lines that are shown mostly."""
MOST = 500_000
"""Values at the end of a curve that are searched at all."""
DECIMALS = re.compile(r"\d\.\d{2,}")
"""A number with so many digits that an equal value of a curve is hardly a coincidence."""
MAX_CHARACTERS = 1000
MAX_LINES = 2000
"""Lines to remember."""
CLOSE = 1e-7


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNumber:
    """A number of a line, by its characters, that is a value of a metric."""

    begin: int
    end: int
    metric: str
    step: int

    @property
    def is_validation(self) -> bool:
        """Whether the metric is drawn in the colour of validations."""
        return self.metric.startswith(VALIDATION)


class LogNumbers:
    """Knows the numbers in the log of one rank of a run."""

    def __init__(self, run_series: RunSeries, rules: Sequence[str], rank: int) -> None:
        self._run_series, self._suffix = run_series, f"@{rank}" if rank else ""
        self._rules = RuleSet(usable_rules(rules))
        self._known: dict[str, tuple[LogNumber, ...]] = {}
        self._version = -1

    def of_line(self, line: str) -> tuple[LogNumber, ...]:
        """Return the numbers of a line that are recorded as values of a metric."""
        version = self._run_series.version
        if len(self._known) > MAX_LINES or version != self._version:
            self._known = {text: found for text, found in self._known.items() if found and version > self._version}
            self._known = {} if len(self._known) > MAX_LINES else self._known
            self._version = version
        found = self._known.get(line)
        if found is None:
            found = self._known[line] = tuple(self._search(line))
        return found

    def _search(self, line: str) -> list[LogNumber]:
        if len(line) > MAX_CHARACTERS:
            return []
        found = [
            LogNumber(begin=claim.begin, end=claim.end, metric=name, step=step)
            for claim in self._rules.claims(line)
            if claim.role.startswith(METRIC)
            and (name := claim.role.removeprefix(METRIC))
            and (step := self._step(name, claim.value, None)) is not None
        ]
        taken = {each.begin for each in found}
        reading = statement_of(line).reading
        names = dict(reading.values) if reading else {}
        for match in NUMBER.finditer(line):
            if match.start() not in taken:
                found += self._known_value(match, names, reading.step if reading else None)
        return sorted(found, key=lambda each: each.begin)

    def _known_value(self, match: re.Match[str], names: dict[str, float], step: int | None) -> list[LogNumber]:
        """Return the number if it is a value of one of the names, or, with many digits, of any metric."""
        value = float(match[0].replace(",", ""))
        said = [name for name, each in names.items() if _same(each, value) or _same(each, value / 100)]
        candidates = [(name, names[name]) for name in said]
        candidates += [(f"{VALIDATION}{name}", names[name]) for name in said]
        if not candidates and not names and DECIMALS.search(match[0]):
            candidates = [(name.removesuffix(self._suffix), value) for name in self._run_series.metrics]
        for name, wanted in candidates:
            at = self._step(name, wanted, step)
            if at is not None:
                names.pop(name, None)
                return [LogNumber(begin=match.start(), end=match.end(), metric=name, step=at)]
        return []

    def _step(self, name: str, value: float, step: int | None) -> int | None:
        """Return the step at which a metric has a value: this one if it has it there, else the last one."""
        series = self._run_series.metrics.get(name + self._suffix)
        if series is None or not len(series):
            return None
        if step is not None:
            at = int(np.searchsorted(series.steps, step))
            if at < len(series) and series.steps[at] == step and _same(float(series.values[at]), value):
                return step
        found = _last_of(series, value, RECENT)
        return _last_of(series, value, MOST) if found is None else found


def _last_of(series: Series, value: float, count: int) -> int | None:
    """Return the step of the last of the newest `count` values that equals this one; None if there is none."""
    values = series.values[-count:]
    same = np.isnan(values) if math.isnan(value) else np.isclose(values, value, rtol=CLOSE, atol=0)
    places = np.flatnonzero(same)
    return int(series.steps[-count:][places[-1]]) if len(places) else None


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=CLOSE) or (math.isnan(one) and math.isnan(other))


MAX_MARKS = 500
"""Maximum number of marked matches."""
NUMBERS_MS = 250
"""Milliseconds between two looks for numbers while text is coming in."""


class Highlights(QObject):
    """Marks visible lines only: there may be a hundred thousand."""

    pointed = Signal(str, int, str)
    """A line, the position of a number in it, and what the user says it is: a role of a rule."""

    def __init__(self, view: LogView) -> None:
        super().__init__(view)
        self._view = view
        self._query = ""
        self._numbers: LogNumbers | None = None
        self._number_marks: list[QTextEdit.ExtraSelection] = []
        self.points = False
        """Whether every number is underlined, and a click points at one."""
        self._due = QTimer(self, singleShot=True, interval=NUMBERS_MS)
        self._due.timeout.connect(self._mark_numbers)
        view.viewport().installEventFilter(self)
        view.installEventFilter(self)  # for the menu that a key opens
        look.changed.connect(self.update_marks)

    @property
    def marked(self) -> list[str]:
        """The numbers that are marked."""
        return [mark.cursor.selectedText() for mark in self._number_marks]

    def search(self, query: str) -> None:
        """Mark all visible matches of a text, ignoring case; the empty string removes the marks."""
        self._query = query
        self.update_marks()

    def show_numbers(self, numbers: LogNumbers | None) -> None:
        """Mark the numbers of this run from now on; None: it has none, and none can be taught."""
        self._numbers = numbers
        self._number_marks = []
        self.set_points(False)

    def set_points(self, points: bool) -> None:
        """Underline every number, take a click for pointing at one, and let the arrow keys move a cursor."""
        self.points = points
        viewport, by = self._view.viewport(), Qt.TextInteractionFlag
        keys = by.TextSelectableByKeyboard if points else by.NoTextInteraction
        self._view.setTextInteractionFlags(by.TextSelectableByMouse | keys)
        if points:
            self._view.setTextCursor(self._view.cursorForPosition(viewport.rect().center()))
        viewport.setCursor(Qt.CursorShape.PointingHandCursor if points else Qt.CursorShape.IBeamCursor)
        self.update_marks()

    def update_marks(self) -> None:
        """Mark what is visible now: the matches at once, the numbers soon."""
        if self._numbers is not None and not self._due.isActive():
            self._due.start()
        self._show()

    def _show(self) -> None:
        marks = [*self._number_marks]
        if self._query:
            match = QTextCharFormat()
            match.setBackground(QColor(current_theme().warn_soft))
            match.setForeground(QColor(current_theme().warn))
            marks += [_mark(found, match) for found in islice(self._visible_matches(), MAX_MARKS)]
        if marks or self._view.extraSelections():
            self._view.setExtraSelections(marks)

    def _mark_numbers(self) -> None:
        if self._numbers is None or not self._view.isVisible():
            return
        looks, theme = {}, current_theme()
        plain = QTextCharFormat()
        plain.setFontUnderline(True)
        for is_validation, colour in ((False, theme.train), (True, theme.validation)):
            looks[is_validation] = QTextCharFormat()
            ink = legible(parse(colour), parse(theme.panel), theme.text_contrast)
            looks[is_validation].setForeground(QColor(*ink))
            looks[is_validation].setFontUnderline(True)
        self._number_marks = []
        for block in self.visible_blocks():
            known = {(each.begin, each.end): looks[each.is_validation] for each in self._numbers.of_line(block.text())}
            every = dict.fromkeys(numbers_of(block.text()) if self.points else (), plain)
            for (begin, end), marked in {**every, **known}.items():
                cursor = QTextCursor(block)
                cursor.setPosition(block.position() + begin)
                cursor.setPosition(block.position() + end, QTextCursor.MoveMode.KeepAnchor)
                self._number_marks.append(_mark(cursor, marked))
        self._show()

    def _visible_matches(self) -> Iterator[QTextCursor]:
        document = self._view.document()
        for block in self.visible_blocks():
            found = QTextCursor(block)
            for _ in range(block.text().lower().count(self._query.lower())):  # else find() goes on to the end
                found = document.find(self._query, found)
                yield QTextCursor(found)

    def visible_blocks(self) -> Iterator[QTextBlock]:
        """Yield the lines that can be seen."""
        block, at = self._view.firstVisibleBlock(), 0.0
        while block.isValid() and at < self._view.viewport().height():
            yield block
            at += self._view.blockBoundingRect(block).height()
            block = block.next()

    # -- the number under the mouse --------------------------------------------------------------

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Show the tooltip of a number, and the menu with what it can be."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            number = self.number_under(event.pos())
            words = tr("{metric}, step {step}", metric=number.metric, step=number.step) if number else ""
            self._view.viewport().setToolTip(verbatim(words))  # which Qt shows then
        if isinstance(event, QContextMenuEvent):
            self.menu_at(event.pos()).popup(event.globalPos())
            return True
        if self.points and isinstance(event, QMouseEvent) and event.type() == QEvent.Type.MouseButtonPress:
            at = self._view.cursorForPosition(event.position().toPoint())
            if event.button() == Qt.MouseButton.LeftButton and self.point_at(at):
                return True
        return super().eventFilter(watched, event)

    def point_at(self, cursor: QTextCursor) -> bool:
        """Point at the number that is nearest in the line of a cursor. Return whether there is one."""
        line = cursor.block().text()
        span = nearest_number(line, cursor.positionInBlock())
        if span is not None:
            self.pointed.emit(line, span[0], METRIC.strip())
        return span is not None

    def number_under(self, position: QPoint) -> LogNumber | None:
        """Return the recorded number at a position of the view; None if there is none."""
        line, at = self._place(position)
        numbers = self._numbers.of_line(line) if self._numbers is not None else ()
        return next((each for each in numbers if each.begin <= at <= each.end), None)

    def menu_at(self, position: QPoint) -> QMenu:
        """Return the menu for a position of the view: the usual one, with what a number there can be."""
        menu: QMenu = self._view.createStandardContextMenu(position)
        line, at = self._place(position)
        span = nearest_number(line, at) if self._numbers is not None else None
        if span is not None:
            first = menu.actions()[0]
            shown = line[span[0] : span[1]]
            for name, text, role in (
                ("plotNumber", tr("Plot {number} as ...", number=shown), METRIC.strip()),
                ("noMetric", tr("{number} is not a metric", number=shown), NO_METRIC),
                ("stepNumber", tr("{number} is the step", number=shown), STEP),
            ):
                action = QAction(menu_text(text), menu)
                action.setObjectName(name)
                action.triggered.connect(lambda _, role=role, line=line, at=span[0]: self.pointed.emit(line, at, role))
                menu.insertAction(first, action)
            menu.insertSeparator(first)
        menu.aboutToHide.connect(menu.deleteLater)
        return menu

    def _place(self, position: QPoint) -> tuple[str, int]:
        cursor = self._view.cursorForPosition(position)
        return cursor.block().text(), cursor.positionInBlock()


def _mark(cursor: QTextCursor, look: QTextCharFormat) -> QTextEdit.ExtraSelection:
    mark = QTextEdit.ExtraSelection()
    mark.cursor, mark.format = cursor, look
    return mark
