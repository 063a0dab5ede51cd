"""Search in the list of runs, and give runs stars, tags and notes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from core.errors import RunError
from core.language import tr, tr_plural
from core.runs.marks import MAX_NOTE, change_marks, check_tag
from core.runs.search import parse_search, unknown_sentence
from gui.style.formatting import number
from gui.widgets.name_dialog import NameDialog

if TYPE_CHECKING:
    from typing import Any

    from core.runs.marks import Marks
    from gui.panels.runs.run_menu import RunMenu
    from gui.services.services import Services

    from .dock_layout import MainPanels


class HistoryController(QObject):
    """It keeps nothing: the list of runs has the search, and each run its marks."""

    def __init__(self, panels: MainPanels, services: Services) -> None:
        super().__init__()
        self._panels, self._message = panels, panels.message
        self._run_list = services.run_list
        self._filter = panels.run_filter
        self._filter.search_changed.connect(self._search)
        self._run_list.changed.connect(self._show)
        for menu in panels.run_menus:
            self._connect(menu)
        self._show()

    def _connect(self, menu: RunMenu) -> None:
        menu.opened.connect(lambda: menu.show_marks(self._marks(menu.run_dir)))
        menu.star_asked.connect(lambda run_dir: self._change(run_dir, star=not self._is(run_dir, "star")))
        menu.archive_asked.connect(lambda run_dir: self._archive(run_dir, archived=not self._is(run_dir, "archived")))
        menu.tags_asked.connect(self._ask_for_tags)
        menu.note_asked.connect(self._ask_for_note)

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
        self._panels.runs_left.setVisible(left > 0)
        if left:
            done, total = number(len(every), 1), number(len(every) + left, 1)
            self._panels.runs_left.setText(tr("{done} of {total} runs read", done=done, total=total))
        self._filter.setVisible(bool(every) or bool(self._filter.text()))
        problem = ""
        if every and not self._run_list.found:
            unknown = search.unknown_keys(every)
            problem = unknown_sentence(unknown) if unknown else _finds_none(len(every), is_search=bool(search.text))
        self._filter.show_problem(problem if search.text else "")
        self._panels.runs.show_empty_words(problem)

    # -- marks -----------------------------------------------------------------------------------

    def _marks(self, run_dir: str) -> Marks | None:
        summary = self._run_list.summary(run_dir)
        return summary.marks if summary else None

    def _is(self, run_dir: str, name: str) -> bool:
        return bool(getattr(self._marks(run_dir), name, False))

    def _change(self, run_dir: str, **changes: Any) -> bool:  # noqa: ANN401 (as `change_marks`)
        """Change the marks of a run; return whether that was possible."""
        try:
            change_marks(Path(run_dir), **changes)
        except (RunError, ValueError) as error:
            self._message.show_message(str(error), "bad")
            return False
        finally:
            self._run_list.reread(Path(run_dir))
        return True

    def _archive(self, run_dir: str, *, archived: bool) -> None:
        summary = self._run_list.summary(run_dir)
        if self._change(run_dir, archived=archived) and archived and summary is not None:
            self._message.show_passing(
                tr("Archived {name}. Filter for archived:yes to list archived runs.", name=summary.name)
            )

    def _ask_for_tags(self, run_dir: str) -> None:
        marks = self._marks(run_dir)
        if marks is None:
            return
        before = marks.tags
        dialog = NameDialog(
            self._panels.window, question=tr("Tags of the run, with spaces between them"), name=" ".join(before),
            yes=tr("Save"), judge=_judge_tags, may_be_empty=True,
        )  # fmt: skip
        dialog.named.connect(lambda text: self._set_tags(run_dir, before, _tags(text)))
        dialog.open()

    def _set_tags(self, run_dir: str, before: tuple[str, ...], after: list[str]) -> None:
        added, removed = [tag for tag in after if tag not in before], [tag for tag in before if tag not in after]
        if added or removed:
            self._change(run_dir, add_tags=added, remove_tags=removed)

    def _ask_for_note(self, run_dir: str) -> None:
        dialog = NameDialog(
            self._panels.window, question=tr("Note on the run"), name="", yes=tr("Add"), judge=_judge_note
        )
        dialog.named.connect(lambda text: self._change(run_dir, note=text))
        dialog.open()


def _finds_none(count: int, *, is_search: bool) -> str:
    if is_search:
        return tr_plural("The search fits none of the {count} run.", "The search fits none of the {count} runs.", count)
    return tr("All runs are archived. Filter for archived:yes to list them.")


def _tags(text: str) -> list[str]:
    return list(dict.fromkeys(text.replace(",", " ").split()))


def _judge_tags(text: str) -> tuple[str, str]:
    try:
        for tag in _tags(text):
            check_tag(tag)
    except ValueError as error:
        return str(error), ""
    return "", ""


def _judge_note(text: str) -> tuple[str, str]:
    if len(text) > MAX_NOTE:
        return tr("The note has {count} characters. Give at most {limit}.", count=len(text), limit=MAX_NOTE), ""
    return "", tr("Notes are only added, and cannot be changed.")
