"""What stands around the list of runs, and what is done with its runs: search, marks, several at once, the queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from PySide6.QtCore import QEvent, QKeyCombination, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit, QPushButton, QWidget

from core.errors import RunError
from core.history.marks import MAX_NOTE, NO_MARKS, Marks, check_tag
from core.history.search import parse_search, unknown_sentence
from core.language import join_sentences, tr, tr_noop, tr_plural
from core.queue import control, folder
from core.queue.folder import own_line
from core.queue.listing import QueuedRun, is_queued
from core.text import first_names, join_names
from gui.base.formatting import number
from gui.base.icons import ButtonIcon
from gui.base.jobs import Jobs, reason
from gui.base.theme import mark
from gui.runs.actions import ACTIONS, ActionState, not_done, obstacles
from gui.runs.rows import HELD, place_of_drop, place_of_step
from gui.widgets.buttons import compact_button, icon_button
from gui.widgets.dialogs import NameDialog, ask
from gui.widgets.layouts import hbox
from gui.widgets.plain_text import menu_text, named, verbatim
from gui.window.feature import Feature

PLACEHOLDER = tr_noop("Filter: name, lr<0.01 …")
FILTER_TIP = tr_noop(
    "Words of names, tags and notes, and conditions: state:failed lr<1e-3 tag:baseline framework:keras star:yes. "
    "sort:loss sorts, sort:-loss the other way round. archived:yes lists archived runs."
)
PAUSE_MS = 120
"""Milliseconds without a key after which the list follows."""


class RunFilter(QLineEdit):
    """A search field. Escape empties it; a search that is not understood is marked, and says why."""

    search_changed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        named(self, "runFilter", tr("Filter the runs"))
        self.setPlaceholderText(tr(PLACEHOLDER))
        self.setClearButtonEnabled(True)
        self.setStyleSheet("QLineEdit { margin: 3px 4px 6px 2px; }")
        self._timer = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self._timer.timeout.connect(lambda: self.search_changed.emit(self.text()))
        self.textChanged.connect(lambda _: self._timer.start())
        self.returnPressed.connect(self._follow_now)
        self.show_problem("")

    def show_problem(self, sentence: str) -> None:
        """Say why the search cannot be used, or finds nothing; the empty string if it can."""
        mark(self, tone="bad" if sentence else "")
        self.setToolTip(verbatim(sentence or tr(FILTER_TIP)))
        self.setAccessibleDescription(sentence or tr(FILTER_TIP))

    def event(self, event: QEvent) -> bool:
        """Take Escape, which a shortcut would have, as long as there is a text."""
        if (
            event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.keyCombination() == QKeyCombination(Qt.Key.Key_Escape)
            and self.text()
        ):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Empty the field with Escape; a second Escape leaves it."""
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
            self._follow_now()
        else:
            super().keyPressEvent(event)

    def _follow_now(self) -> None:
        self._timer.stop()
        self.search_changed.emit(self.text())


(COMPARE,) = (row.of_several[1] for row in ACTIONS if row.of_several and row.name == "compare")
DOTS_PX = 15


class SeveralBar(QWidget):
    """A button that compares the ticked runs, one for all else, and one that unticks them."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("severalBar")
        self.compare = compact_button("compareButton", "", tr(COMPARE), role="link")
        more, none = tr("Actions for all ticked runs"), tr("Untick all runs (Esc)")
        self.more = icon_button("dots", "severalMenuButton", more, side=DOTS_PX, compact=True)
        self.none = icon_button("cross", "untickButton", none, compact=True)
        hbox(self, self.compare, 0, self.more, self.none, gap=2, margins=(6, 4, 0, 0))
        self.hide()

    def show_count(self, count: int) -> None:
        """Show that so many runs are ticked; the bar is hidden for fewer than two."""
        self.compare.setText(tr_plural("Compare {count} run", "Compare {count} runs", count))
        self.setVisible(count > 1)


ICON_PX, ICON_GAP_PX = 13, 5
"""Side of the icon, and room between it and the text, which begins where the names of the runs below do."""
TITLE = tr_noop("This machine")
TIP = tr_noop("Show the devices of this machine and what they did in the last hour, without a run (Esc)")


class MachineEntry(QPushButton):
    """Checked while no run is shown. A click leaves the shown run; pressing it again changes nothing."""

    def __init__(self) -> None:
        super().__init__(tr(TITLE))
        named(self, "machineEntry", role="segment")
        self.setStyleSheet("QPushButton { text-align: left; padding-left: 6px; }")
        self.setCheckable(True)
        self.setChecked(True)
        self.setToolTip(tr(TIP))
        self.setAccessibleDescription(tr(TIP))
        self.setAutoDefault(False)
        ButtonIcon(self, "machine", side=ICON_PX, gap=ICON_GAP_PX)

    def show_host(self, name: str) -> None:
        """Name another machine, whose runs are listed."""
        tip = tr("Show the devices of {host} and what they did in the last hour, without a run (Esc)", host=name)
        self.setText(menu_text(name))
        self.setToolTip(verbatim(tip))
        self.setAccessibleDescription(tip)

    def show_chosen(self, *, chosen: bool) -> None:
        """Mark that no run is shown."""
        self.setChecked(chosen)


class HistoryController(Feature):
    """It keeps nothing: the list of runs has the search, and each run its marks."""

    def set_up(self) -> None:
        panels = self.panels
        self._filter = panels.run_filter
        self._filter.search_changed.connect(self._search)
        self._run_list.changed.connect(self._show)
        panels.actions.judge(self._judge)
        panels.actions.provide(
            star=lambda runs: self._change(runs[0], star=not self._is(runs[0], "star")),
            tags=lambda runs: self._ask_for_tags_of_several(runs) if len(runs) > 1 else self._ask_for_tags(runs[0]),
            note=lambda runs: self._ask_for_note(runs[0]),
            archive=self._archive,
            list=lambda runs: self._change_several(runs, lambda _: {"archived": False}),
        )
        runs, bar = panels.runs, panels.several
        runs.choice_changed.connect(lambda: bar.show_count(len(runs.ticked)))
        bar.more.clicked.connect(
            lambda: runs.several_menu.popup_for(runs.ticked, bar.more.mapToGlobal(QPoint(0, bar.more.height())))
        )
        bar.compare.clicked.connect(lambda: panels.actions.do("compare", runs.ticked))
        bar.none.clicked.connect(lambda: runs.tick(()))
        self._show()

    def _judge(self, run_dir: str, states: Mapping[str, ActionState]) -> None:
        marks = self._marks(run_dir) or NO_MARKS
        if marks.star:
            states["star"].text = tr("Remove star")
        if marks.archived:
            states["archive"].text = tr("Unarchive")

    def carry(self, former: Self) -> None:
        """Search for the same, and tick the same runs."""
        self._filter.setText(former.panels.run_filter.text())
        if former.panels.runs.has_several:
            self.panels.runs.tick(former.panels.runs.ticked)

    # -- search ----------------------------------------------------------------------------------

    def _search(self, text: str) -> None:
        try:
            search = parse_search(text)
        except ValueError as error:
            self._filter.show_problem(str(error))  # the list stays as it is until the text can be understood
            return
        self._run_list.set_search(search)
        self._show()

    def _show(self) -> None:
        """Show the field if there is something to search, and say if the search finds nothing."""
        every, search, left = self._run_list.summaries, self._run_list.search, self._run_list.left
        done, total = number(len(every), 1), number(len(every) + left, 1)
        self.panels.runs_left.show_text(tr("{done} of {total} runs read", done=done, total=total) if left else "")
        self._filter.setVisible(bool(every) or bool(self._filter.text()))
        problem = ""
        if every and not self._run_list.found:
            unknown = search.unknown_keys(every)
            problem = unknown_sentence(unknown) if unknown else _finds_none(len(every), is_search=bool(search.text))
        self._filter.show_problem(problem if search.text else "")
        if not problem and not self._machine.knows_runs:
            problem = tr("Runs are not known until there is a connection to {host}.", host=self._machine.host)
        self.panels.runs.show_empty_words(problem)

    # -- marks -----------------------------------------------------------------------------------

    def _marks(self, run_dir: str) -> Marks | None:
        summary = self._run_list.summary(run_dir)
        return summary.marks if summary else None

    def _is(self, run_dir: str, name: str) -> bool:
        return bool(getattr(self._marks(run_dir), name, False))

    def _change(self, run_dir: str, **changes: Any) -> bool:  # noqa: ANN401 (as `change_marks`)
        """Change the marks of a run; return whether that was possible."""
        done = self._message.attempt(lambda: self._machine.change_marks(Path(run_dir), **changes))
        self._run_list.reread(Path(run_dir))
        return done

    def _archive(self, run_dirs: Sequence[str]) -> None:
        """Archive runs; list one that is archived again."""
        if len(run_dirs) > 1:
            done = self._change_several(run_dirs, lambda _: {"archived": True})
            said = tr_plural(
                "Archived {count} run. Filter for archived:yes to list archived runs.",
                "Archived {count} runs. Filter for archived:yes to list archived runs.",
                done,
            )
            if done == len(run_dirs):
                self._message.show_passing(said)
            return
        (run_dir,), summary = run_dirs, self._run_list.summary(run_dirs[0])
        archived = not self._is(run_dir, "archived")
        if self._change(run_dir, archived=archived) and archived and summary is not None:
            said = tr("Archived {name}. Filter for archived:yes to list archived runs.", name=summary.name)
            self._message.show_passing(said)

    # -- several runs ----------------------------------------------------------------------------

    def _change_several(self, run_dirs: Sequence[str], changes: Callable[[Marks], dict[str, Any]]) -> int:
        """Change the marks of these runs; return of how many. What was impossible is a message with the reasons.

        `changes`: returns the changes for the present marks of a run, as `change_marks` takes them.
        """
        reasons = {}
        for run_dir in run_dirs:
            summary = self._run_list.summary(run_dir)
            why_not = obstacles(summary)["archive"]
            try:
                if summary is not None and not why_not:
                    self._machine.change_marks(summary.dir, **changes(summary.marks))
            except (RunError, ValueError) as error:
                why_not = str(error)
            if why_not:
                reasons[summary.name if summary is not None else Path(run_dir).name] = why_not
            self._run_list.forget(Path(run_dir))
        self._run_list.poll(now=True)
        if reasons:
            self._message.show_message(not_done(reasons), "bad")
        return len(run_dirs) - len(reasons)

    def _ask_for_tags_of_several(self, run_dirs: Sequence[str]) -> None:
        question = tr_plural(
            "Tags for {count} run, with spaces between them. A tag with a minus before it is removed.",
            "Tags for {count} runs, with spaces between them. A tag with a minus before it is removed.",
            len(run_dirs),
        )
        judge = partial(_judge_tags, may_remove=True)

        def take(text: str) -> None:
            words = _tags(text)
            taken = {word[1:] for word in words if word.startswith("-")}
            self._change_several(run_dirs, lambda marks: {
                "add_tags": [word for word in words if not word.startswith("-") and word not in marks.tags],
                "remove_tags": [tag for tag in marks.tags if tag in taken],
            })

        NameDialog(self.panels.window, take, question=question, name="", yes=tr("Save"), judge=judge).open()

    # -- dialogs ---------------------------------------------------------------------------------

    def _ask_for_tags(self, run_dir: str) -> None:
        marks = self._marks(run_dir)
        if marks is None:
            return
        before, question = marks.tags, tr("Tags of the run, with spaces between them")

        def take(text: str) -> None:
            after = _tags(text)
            added, removed = [tag for tag in after if tag not in before], [tag for tag in before if tag not in after]
            if added or removed:
                self._change(run_dir, add_tags=added, remove_tags=removed)

        name, save, window = " ".join(before), tr("Save"), self.panels.window
        tags = NameDialog(window, take, question=question, name=name, yes=save, judge=_judge_tags, may_be_empty=True)
        tags.open()

    def _ask_for_note(self, run_dir: str) -> None:
        take = lambda text: self._change(run_dir, note=text)  # noqa: E731
        question, add, window = tr("Note on the run"), tr("Add"), self.panels.window
        NameDialog(window, take, question=question, name="", yes=add, judge=_judge_note).open()


def _finds_none(count: int, *, is_search: bool) -> str:
    if is_search:
        return tr_plural("The search fits none of the {count} run.", "The search fits none of the {count} runs.", count)
    return tr("All runs are archived. Filter for archived:yes to list them.")


def _tags(text: str) -> list[str]:
    return list(dict.fromkeys(text.replace(",", " ").split()))


def _judge_tags(text: str, *, may_remove: bool = False) -> tuple[str, str]:
    """Return why these cannot be the tags, and no notice. `may_remove`: a minus may stand before a tag."""
    try:
        for tag in _tags(f" {text}".replace(" -", " ") if may_remove else text):
            check_tag(tag)
    except ValueError as error:
        return str(error), ""
    return "", ""


def _judge_note(text: str) -> tuple[str, str]:
    if len(text) > MAX_NOTE:
        return tr("The note has {count} characters. Give at most {limit}.", count=len(text), limit=MAX_NOTE), ""
    return "", tr("Notes are only added, and cannot be changed.")


class QueueController(Feature):
    """It keeps nothing: the service has the queue. What is changed is written in the background."""

    def set_up(self) -> None:
        panels = self.panels
        self._service = self.services.queue
        self._changing = Jobs(self, "queueing", guards=True)
        self._problem = ""
        self._service.failed.connect(self._report)
        self._service.revived.connect(self._tell_revived)
        panels.runs.moved.connect(self._drop)
        panels.runs.step_asked.connect(self._step)
        panels.actions.judge(self._judge)
        panels.actions.provide(
            up=lambda runs: self._step(runs[0], -1),
            down=lambda runs: self._step(runs[0], 1),
            hold=lambda runs: self._hold_several(runs) if len(runs) > 1 else self._hold_or_release(runs[0]),
            startNow=lambda runs: self._ask_to_start(runs[0]),
            unqueue=self._ask_to_remove,
        )
        panels.runs.several_menu.queued = lambda: {str(each.run_dir) for each in self._service.runs}

    def _report(self, problem: str) -> None:
        """Add what is wrong with the queue to the message, which may name its cause; take it out when it is over."""
        others = self._message.text.replace(self._problem, "").strip() if self._message.is_open else ""
        self._problem = problem
        self._message.show_message(join_sentences([others, problem]), "bad" if others else "warn")

    def _show_change(self, problem: str) -> None:
        self._service.outdate()
        self._run_list.poll(now=True)
        if problem:
            self._message.show_message(problem, "bad")

    def _tell_revived(self, run_dirs: list[Path]) -> None:
        known = {each: self._run_list.summary(str(each)) for each in run_dirs}
        names = [summary.name if summary else run_dir.name for run_dir, summary in known.items()]
        said = tr_plural(
            "{names} waits in the queue again. No process waited for it any more, as after a reboot.",
            "{names} wait in the queue again. No process waited for them any more, as after a reboot.",
            len(names), names=join_names(first_names(names)),
        )
        self._message.show_message(said, "good")

    def _judge(self, run_dir: str, states: Mapping[str, ActionState]) -> None:
        queued = self._service.queued(run_dir)
        if queued is None:
            return
        for row in ACTIONS:
            if row.of_queued:
                states[row.name].shown = True
        if queued.state == HELD:
            states["hold"].text = tr("Release")
        if place_of_step(self._service.runs, queued.run_dir, -1) is None:
            states["up"].why_not = tr("It is the first run of the queue.")
        if place_of_step(self._service.runs, queued.run_dir, 1) is None:
            states["down"].why_not = tr("It is the last run of the queue.")

    def _step(self, run_dir: str, step: int) -> None:
        self._move(Path(run_dir), place_of_step(self._service.runs, Path(run_dir), step))

    def _drop(self, run_dir: str, before: Sequence[str]) -> None:
        below = next((each.run_dir for each in self._among(before)), None)
        self._move(Path(run_dir), place_of_drop(self._service.runs, Path(run_dir), below))

    def _among(self, run_dirs: Sequence[str]) -> list[QueuedRun]:
        """Return which of these runs are queued, in their order."""
        return [each for each in self._service.runs if str(each.run_dir) in run_dirs]

    def _move(self, run_dir: Path, place: int | None) -> None:
        if place is not None:
            runs = list(self._service.runs)
            self._change(lambda: control.move(run_dir, place, runs))

    def _hold_or_release(self, run_dir: str) -> None:
        queued = self._service.queued(run_dir)
        if queued is None:
            return
        if queued.request.why_held:  # the file has changed since: what to train is the user's choice
            question = tr("Start {run} with the file as it is now?", run=queued.run_dir.name)
            changes = [partial(control.let_go, queued.run_dir, file) for file in ("current", "recorded")]
            now, before = (partial(self._change, change) for change in changes)
            yes, other = tr("As it is now"), (tr("As it was queued"), before)
            window, words = self.panels.window, queued.reason
            ask(window, now, question=question, words=words, yes=yes, is_destructive=False, other=other)
        elif queued.request.held:
            self._change(lambda: control.let_go(queued.run_dir))
        elif queued.state == HELD:
            self._change(lambda: folder.let_go(own_line().line))
        else:
            self._change(lambda: control.hold(queued.run_dir))

    def _hold_several(self, run_dirs: Sequence[str]) -> None:
        """Hold those of these runs that wait; release them if all are held."""
        free = [each.run_dir for each in self._among(run_dirs) if not each.request.held]
        held = [each.run_dir for each in self._among(run_dirs) if not free]
        self._change(lambda: [*map(control.hold, free), *map(control.let_go, held)])

    def _ask_to_start(self, run_dir: str) -> None:
        queued, summary = self._service.queued(run_dir), self._run_list.summary(run_dir)
        if queued is None or summary is None:
            return
        sharing = tr("Sharing a device slows down all runs, and any may run out of memory.")
        question = tr("Start {name} now, whoever uses its devices?", name=summary.name)
        words, start = join_sentences([queued.reason, sharing]), partial(control.start_now, queued.run_dir)
        self._ask(start, question, words, tr("Start now"))

    def _ask_to_remove(self, run_dirs: Sequence[str]) -> None:
        summary = self._run_list.summary(run_dirs[0])
        chosen = [each.run_dir for each in self._among(run_dirs)] if len(run_dirs) > 1 else [Path(run_dirs[0])]
        if summary is None or not chosen:
            return
        question = tr_plural("Remove {name} from the queue?", "Remove {count} runs from the queue?", len(chosen),
                             name=summary.name)
        words = tr_plural(
            "It will not start. It stays in the list as stopped, and Run again starts it.",
            "They will not start. They stay in the list as stopped, and Run again starts them.", len(chosen),
        )
        # The last first: the next would start in place of one that is removed.
        self._ask(lambda: [*map(control.cancel, filter(is_queued, reversed(chosen)))], question, words, tr("Remove"))

    def _ask(self, change: Callable[[], object], question: str, words: str, yes: str) -> None:
        action, window = partial(self._change, change), self.panels.window
        ask(window, action, question=question, words=words, yes=yes, is_destructive=False)

    def _change(self, change: Callable[[], object]) -> None:
        """Change the queue, after all other changes."""
        self._changing.add(change, lambda _: self._show_change(""), lambda error: self._show_change(reason(error)))
