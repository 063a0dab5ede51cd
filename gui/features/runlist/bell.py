"""Runs that ended while the user was away: the bell in the header counts them, and opens a list of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QModelIndex, QObject, QPoint, Qt, Signal
from PySide6.QtWidgets import QApplication, QFrame, QListView, QToolButton, QWidget

from core.history.summary import RunSummary
from core.language import join_sentences, tr, tr_plural
from core.notifications.channels import NAN, OCCASIONS, STALLED
from core.notifications.settings import load
from core.notifications.start import Alarms, Notifier
from core.runs.facts import HELD, RunState, state_info
from core.text import capital, join_names
from gui.base.formatting import moment
from gui.base.icons import ButtonIcon
from gui.base.jobs import Jobs, keep_as_it_is
from gui.base.settings_file import SettingsFile, folder_key
from gui.base.text_size import scaled
from gui.features.runlist.view import RunDelegate
from gui.runs.rows import RunRow, mark, outcome, run_title, tone
from gui.runs.run_list import RunListService
from gui.runs.verdicts import SHORT, TONES
from gui.runs.words import loss_problem
from gui.widgets.buttons import compact_button
from gui.widgets.layouts import hbox, vbox
from gui.widgets.messages import announce
from gui.widgets.plain_text import PlainLabel, named
from gui.widgets.table import ROW, Column, RowsModel
from gui.window.feature import Feature


def missed_row(summary: RunSummary, now: float, difference: str) -> RunRow:
    """Return the row of a run; `now` in unix seconds. `difference`: what makes it different."""
    when = "" if summary.ended is None else moment(summary.ended, now)
    words, sign, colour = outcome(summary), mark(summary), tone(summary)
    if (held := summary.verdict) is not None and held in HELD:
        words = f"{words} · {tr(SHORT[held])}"
        sign, colour = ("alert", TONES[held]) if colour == "good" else (sign, colour)
    return RunRow(
        dir=summary.dir, title=summary.name, outcome=words, words=difference, below=words, left=when, mark=sign,
        tone=colour, tip=tr(", ").join(filter(None, (summary.name, words, difference, when))),
    )


VERSION = 2
MARGIN_S = 10.0
"""Seconds before a moment in which a run may have ended that the list of runs did not show yet."""
MAX_KEPT = 500
"""Ends that are kept; the oldest are forgotten."""
LOOK_S = 2.0
"""Seconds between two looks for alarms."""
ON_REQUEST = frozenset({RunState.STOPPED, RunState.PAUSED})


@dataclass(frozen=True, slots=True)
class Missed:
    """An end that the user has missed."""

    ended: float
    """Unix seconds; a run that was resumed has another end."""
    is_new: bool = True
    """Whether the user has not looked at the list since."""


class MissedRuns(QObject):
    """Follows the list of runs. Runs of other users are left out."""

    changed = Signal()
    """Other ends were missed, or seen, or what is known of their runs has changed."""

    def __init__(self, run_list: RunListService) -> None:
        super().__init__()
        self._run_list = run_list
        self._file, self._key = SettingsFile(), f"{folder_key(run_list.root)}/missed"
        kept = self._file.value(self._key, dict)
        self._is_first = kept.get("version") != VERSION
        """Whether no window has followed this folder before: then what has ended so far was not missed."""
        self._since = time.time() if self._is_first else _number(kept.get("looked"), time.time())
        """Unix seconds up to which an earlier window has seen all ends of runs that it knew."""
        self._missed = {name: Missed(ended) for name, ended in _times(kept.get("missed")).items()}
        """By name of the folder; the latest last."""
        self._seen = _times(kept.get("seen"))
        """By name, the ends that the user has seen, in this window or another one; the latest last."""
        self._going = {name: asked is True for name, asked in _items(kept.get("going"))}
        """By name, runs that are not over, and whether this window asked them to stop or pause."""
        self._ends = _times(kept.get("ends"))
        """By name, when runs ended whose end was noticed near the last look."""
        self._over: dict[str, RunSummary] = {}
        self._known: set[int] = set()
        """The `id` of each of these: a list of ten thousand is compared every second while a run is live."""
        self._followed: set[str] = set()
        """Runs that this window has listed before they were over."""
        self._attended_since: float | None = None
        """Unix seconds since which the user has the window before them; None while they have not."""
        self._taken: list[RunSummary] | None = None
        run_list.changed.connect(self._take)

    @property
    def runs(self) -> list[tuple[RunSummary, bool]]:
        """The runs whose ends were missed, newest first, each with whether the user has not looked at the list since.

        Runs that were deleted, or go on again, are not among them.
        """
        found = [(self._over[name], each.is_new) for name, each in self._missed.items() if name in self._over]
        return sorted(found, key=lambda each: each[0].ended or 0.0, reverse=True)

    def attend(self, *, attended: bool) -> None:
        """Note whether the user has the window before them at this moment: it is shown and active."""
        has_turned = attended is (self._attended_since is None)
        self._attended_since = (self._attended_since or time.time()) if attended else None
        if has_turned or self._is_first:
            self._is_first = False
            self.save()

    def expect(self, run_dir: Path) -> None:
        """Note that the user of this window asked a run to stop or to pause: that it does so is no news."""
        self._going[run_dir.name] = True
        self.save()

    def look_through(self) -> None:
        """Note that the user has looked at the list."""
        self._note_seen((name, each.ended) for name, each in self._missed.items())
        self._change({name: replace(each, is_new=False) for name, each in self._missed.items()})

    def see(self, run_dir: Path) -> None:
        """Note that the user has looked at a run."""
        self._note_seen((name, each.ended) for name, each in self._missed.items() if name == run_dir.name)
        self._change({name: each for name, each in self._missed.items() if name != run_dir.name})

    def see_all(self) -> None:
        """Note that the user has seen all of them."""
        self._note_seen((name, each.ended) for name, each in self._missed.items())
        self._change({})

    def save(self) -> None:
        """Write what the next window needs, and take over what the user has seen in other windows."""
        kept = self._file.value(self._key, dict)
        if kept.get("version") != VERSION:
            kept = {}
        self._note_seen(_times(kept.get("seen")).items())
        looked = self._since
        if self._taken is not None and not self._run_list.left:
            looked = max(time.time() - MARGIN_S, self._since)
        looked = max(looked, _number(kept.get("looked"), 0.0))
        ends = {**_times(kept.get("ends")), **self._ends}
        asked = {name for name, was_asked in _items(kept.get("going")) if was_asked is True}
        self._file.save({self._key: {
            "version": VERSION, "looked": looked, "missed": self._missed_anywhere(_times(kept.get("missed"))),
            "seen": self._seen, "going": {name: mine or name in asked for name, mine in self._going.items()},
            "ends": {name: when for name, when in ends.items() if when > looked},
        }})
        left = {name: each for name, each in self._missed.items() if not each.is_new or not self._has_seen(name, each)}
        if left != self._missed:
            self._missed = left
            self.changed.emit()

    def _missed_anywhere(self, others: Mapping[str, float]) -> dict[str, float]:
        """Return the ends that were missed in this window or another one, and seen in none."""
        missed = dict(others)
        for name, each in self._missed.items():
            missed[name] = max(each.ended, missed.pop(name, 0.0))
        unseen = [(name, ended) for name, ended in missed.items() if not self._has_seen(name, Missed(ended))]
        return dict(unseen[-MAX_KEPT:])

    def _has_seen(self, name: str, end: Missed) -> bool:
        return name in self._seen and end.ended <= self._seen[name]

    def _note_seen(self, ends: Iterable[tuple[str, float]]) -> None:
        for name, ended in ends:
            self._seen[name] = max(ended, self._seen.pop(name, 0.0))
        for oldest in list(self._seen)[:-MAX_KEPT]:
            del self._seen[oldest]

    def _change(self, missed: dict[str, Missed]) -> None:
        if missed != self._missed:
            self._missed = missed
            self.save()
            self.changed.emit()

    def _take(self) -> None:
        """Look for runs that are over since the last look."""
        summaries = self._run_list.summaries
        if summaries is self._taken:
            return  # only the search has changed
        self._taken = summaries
        noticed, differs = False, False
        for summary in [each for each in summaries if id(each) not in self._known]:
            name = summary.dir.name
            known = self._over.pop(name, None)
            self._known.discard(id(known))
            differs = differs or name in self._missed
            if not state_info(summary.state).over:
                self._followed.add(name)
                self._going.setdefault(name, False)
                continue
            self._over[name] = summary
            self._known.add(id(summary))
            if name in self._going or (known is None and self._is_later(summary)):
                self._note_end(summary)
                noticed = True
        if not self._run_list.left and len(self._over) + len(self._going) > len(summaries):
            self._forget_gone({each.dir.name for each in summaries})
        if noticed:
            self.save()
        if noticed or differs:
            self.changed.emit()

    def _is_later(self, summary: RunSummary) -> bool:
        """Return whether a run that was over when it was first listed has ended since the last look."""
        ended = summary.ended
        return ended is not None and ended > self._since and self._ends.get(summary.dir.name) != ended

    def _note_end(self, summary: RunSummary) -> None:
        name = summary.dir.name
        was_asked = self._going.pop(name, False)
        if summary.ended is not None and math.isfinite(summary.ended):
            self._ends[name] = summary.ended
        is_expected = was_asked and summary.state in ON_REQUEST and summary.verdict not in HELD
        self._missed.pop(name, None)  # an earlier end of a run that was resumed
        ended = _number(summary.ended, 0.0)
        if self._was_seen(summary) or is_expected:
            self._note_seen([(name, ended)])
        elif not summary.owner and not self._has_seen(name, Missed(ended)):
            self._missed[name] = Missed(ended)
            for oldest in list(self._missed)[:-MAX_KEPT]:
                del self._missed[oldest]

    def _was_seen(self, summary: RunSummary) -> bool:
        """Return whether a run ended before the eyes of the user."""
        if self._attended_since is None:
            return False
        if summary.state is RunState.LOST:  # its end is its last event, however late it was lost
            return summary.dir.name in self._followed
        return (summary.ended or 0.0) >= self._attended_since

    def _forget_gone(self, present: set[str]) -> None:
        """Forget runs whose folder is gone, but keep their missed news: the disk may only be unmounted."""
        self._over = {name: each for name, each in self._over.items() if name in present}
        self._known = {id(each) for each in self._over.values()}
        self._going = {name: was_asked for name, was_asked in self._going.items() if name in present}
        self._followed &= present
        self.changed.emit()


def _number(value: object, default: float) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else default  # type: ignore[arg-type]


def _times(value: object) -> dict[str, float]:
    """Return times by name, the latest last."""
    return {name: _number(when, 0.0) for name, when in _items(value)[-MAX_KEPT:]}


def _items(value: object) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


BELL_PX, GAP_PX = 16, 4
WIDTH_PX, MAX_ROWS = 400, 9
"""Width of the list, and rows that it shows without being scrolled."""
SIDE_PX = 6
MANY = 99


class MissedButton(QToolButton):
    """Shown while there is something in the list. A click opens the list, which takes the number away."""

    all_seen = Signal()
    """The user has marked all as seen."""
    chosen = Signal(str)
    """The directory of the run that the user wants to see."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("missedButton")
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setStyleSheet("QToolButton { padding: 3px 6px; font-weight: bold; }")
        self._count = 0
        self._popup: MissedPopup | None = None
        """Made when there is something to show: at the start of most windows there is nothing."""
        self.clicked.connect(lambda _: self._list().open_below(self))
        self._bell = ButtonIcon(self, "bell", side=BELL_PX)
        self.show_rows(())

    def show_rows(self, rows: Sequence[RunRow], count: int = 0, alarms: int = 0) -> None:
        """Show alarms and missed ends; without any, hide the button. `count`: of ends that are not seen."""
        if rows or self._popup is not None:
            self._list().show_rows(rows)
            self._list().seen_button.setVisible(len(rows) > alarms)  # alarms last as long as what they are about
        if not rows and self._popup is not None:
            self._popup.close()
        missed = tr_plural("{count} run that you missed", "{count} runs that you missed", count) if count else ""
        alarm = tr_plural("{count} alarm", "{count} alarms", alarms) if alarms else ""
        words, count = join_names(filter(None, (alarm, missed))) or tr("Runs that you missed, all seen"), count + alarms
        has_more = count > self._count
        self._count = count
        self.setText((str(count) if count <= MANY else f"{MANY}+") if count else "")
        tip = tr("What became of runs while this window was closed, hidden or not in use")
        named(self, spoken=words, tip=f"{words}\n{tip}")
        self.setAccessibleDescription(tip)
        self.setVisible(bool(rows))
        self._bell.show("bell", "accent" if count else "muted", gap=GAP_PX if count else 0)
        if has_more:
            announce(self, words)

    def _list(self) -> MissedPopup:
        if self._popup is None:
            self._popup = MissedPopup(self)
            self._popup.seen_button.clicked.connect(self._mark_all)
            self._popup.list.clicked.connect(self._choose)
            self._popup.list.activated.connect(self._choose)
        return self._popup

    def _mark_all(self) -> None:
        self._list().close()
        self.all_seen.emit()

    def _choose(self, index: QModelIndex) -> None:
        self._list().close()
        self.chosen.emit(str(index.data(ROW).dir))


class MissedPopup(QFrame):
    """The list, newest first. Esc and a click beside it close it; Enter and a click choose a run."""

    def __init__(self, parent: MissedButton) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        named(self, "missedPopup", card=True)
        heading = PlainLabel(tr("Alarms and missed runs"), role="title")
        heading.setIndent(SIDE_PX)
        self.seen_button = compact_button("missedSeenButton", tr("Mark all as seen"), role="flat")
        self.list = QListView()
        self._model = RowsModel(lambda row: (row.dir, row.below), self.list)  # a run may have several alarms
        text, spoken = (lambda row: f"{row.title}\n{row.outcome}"), (lambda row: row.tip)
        self._model.show_columns([Column("run", text=text, tip=spoken, spoken=spoken)])
        self.list.setModel(self._model)
        named(self.list, "missedList", tr("Runs that you missed"))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.list.setUniformItemSizes(True)
        self.list.setMouseTracking(True)
        self._delegate = RunDelegate(self.list, has_boxes=False)
        self.list.setItemDelegate(self._delegate)
        layout = vbox(self, gap=4, margins=(6, 6, 6, 6))
        hbox(layout, (heading, 1), self.seen_button, gap=4)
        layout.addWidget(self.list)

    def show_rows(self, rows: Sequence[RunRow]) -> None:
        """Show these runs; the current one stays the current one."""
        current = self.list.currentIndex()
        known = self._model.key(current.data(ROW)) if current.isValid() else None
        self._model.show_rows(rows)
        at = self._model.number_of(known)
        # The numbers in the sentence of an alarm may have changed.
        self.list.setCurrentIndex(self._model.index(at if at >= 0 else min(current.row(), len(rows) - 1), 0))
        if self.isVisible():
            self._fit()

    def open_below(self, button: MissedButton) -> None:
        """Open with its right edge below that of the button, inside the screen."""
        self._fit()
        self.list.setCurrentIndex(self._model.index(0, 0))
        corner = button.mapToGlobal(QPoint(button.width() - self.width(), button.height() + 2))
        screen = button.screen().availableGeometry()
        self.move(max(corner.x(), screen.left()), corner.y())
        self.show()
        self.list.setFocus(Qt.FocusReason.PopupFocusReason)

    def _fit(self) -> None:
        """Be as high as the rows need."""
        rows = min(len(self._model.rows), MAX_ROWS)
        self.list.setFixedHeight(rows * max(self.list.sizeHintForRow(0), 1) + 2 * self.list.frameWidth())
        self.setFixedWidth(scaled(WIDTH_PX))
        self.adjustSize()


class MissedController(Feature):
    """The service has what was missed. Alarms are in the list, and in a message, as long as they last."""

    def set_up(self) -> None:
        self._missed = self.services.adopt(MissedRuns(self._run_list))
        self._notifier, self._looks, self._due = Notifier(self._run_list.root), Jobs(self, "alarms"), 0.0
        self._alarms: list[RunRow] = []
        button = self.panels.header.missed
        self._missed.changed.connect(self._show)
        self._session.attached.connect(lambda: self._tell(self._missed.see))
        button.clicked.connect(lambda _: self._missed.look_through())  # after the button has opened the list
        button.all_seen.connect(self._missed.see_all)
        button.chosen.connect(self.panels.runs.choose)
        self._session.end_asked.connect(lambda: self._tell(self._missed.expect))
        self._show()

    def prepare(self) -> None:
        """Note whether the user has the window before them, before the list of runs says what has ended."""
        window = self.panels.window
        is_shown = window.isVisible() and not window.isMinimized()
        self._missed.attend(attended=is_shown and _belongs_to(QApplication.activeWindow(), window))

    def poll(self) -> None:
        """Look for alarms on a thread, since a disk may not answer. Supervisors send those about their runs."""
        if self._machine.is_here and time.monotonic() >= self._due:
            self._due, on_devices = time.monotonic() + LOOK_S, self._run_list.on_devices
            own = self._own = {str(run.dir): run for runs in on_devices.values() for run in runs if not run.owner}
            others = {(STALLED, name): run.stalled or "" for name, run in own.items()}
            others |= {(NAN, name): loss_problem(run.state, run.last_loss) for name, run in own.items()}
            told = {*own, *on_devices} | ({""} if own else set())  # supervisors also look at the disk, which has no id
            look = partial(self._notifier.look, self._monitor.survey, others, told=told)
            self._looks.start(lambda: (look(), load().settings.occasions), self._take_alarms, keep_as_it_is)

    def _take_alarms(self, found: tuple[Alarms, Sequence[str]]) -> None:
        on_devices, self._alarms, texts = self._run_list.on_devices, [], list[str]()
        for what, about in [key for occasion in found[1] for key in found[0] if key[0] == occasion]:
            runs, row = [self._own[about]] if about in self._own else on_devices.get(about, ()), OCCASIONS[what]
            names, text = join_names(run_title(run, time.time()) for run in runs), found[0][what, about]
            where = names or tr("This machine")
            said = tr("{where}: {text}", where=where, text=text) if runs else text
            texts += [] if about in self._own else [said]  # a message about the run says it
            self._alarms.append(RunRow(
                dir=runs[0].dir if runs else self._run_list.root, title=capital(tr(row.title)), words=where, tip=said,
                outcome=where, below=text, mark="alert", tone="bad" if row.is_bad else "warn",
            ))
        self.panels.alarms.show_message(join_sentences(texts), "bad")
        self._show()

    def save(self) -> None:
        """Write what was missed and seen."""
        self._missed.save()

    end = save

    def _show(self) -> None:
        runs, words = self._missed.runs, self._run_list.differences.words
        rows = [*self._alarms, *(missed_row(run, time.time(), words(run)) for run, _ in runs)]
        self.panels.header.missed.show_rows(rows, sum(is_new for _, is_new in runs), len(self._alarms))

    def _tell(self, what: Callable[[Path], None]) -> None:
        """Tell the service something about the shown run."""
        if self._session.run is not None:
            what(self._session.run.dir)


def _belongs_to(active: QWidget | None, window: QWidget) -> bool:
    """Return whether the active window is this one, or a dialog of it."""
    while active is not None and active is not window:
        active = active.parentWidget()
    return active is window
