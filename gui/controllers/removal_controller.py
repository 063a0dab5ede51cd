"""Delete runs that are over, one or several, after a question, in the background."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from core.language import join_sentences, tr, tr_plural
from core.runs import removal
from core.runs.removal import Removed
from core.runs.states import state_info
from core.units import disk
from gui.services.background_task import BackgroundTask, reason
from gui.viewmodels.run.run_actions import not_done
from gui.viewmodels.run.run_rows import run_title
from gui.widgets.confirm_dialog import ask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from core.runs.summary import RunSummary
    from gui.services.services import Services

    from .dock_layout import MainPanels


NAMED = 8
"""Runs that a question names; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalCheck:
    """Whether a run can be deleted."""

    why_not: str = ""
    """Why it cannot be deleted: a sentence, or the empty string."""
    size_bytes: int = 0


class RemovalController(QObject):
    """`poll` never blocks. A run that the window shows is no longer shown once it is being deleted."""

    def __init__(self, panels: MainPanels, services: Services) -> None:
        super().__init__()
        self._panels, self._message = panels, panels.message
        self._run_list, self._session = services.run_list, services.session
        self._checking: BackgroundTask[list[RemovalCheck]] = BackgroundTask("size of a run")
        self._removing: BackgroundTask[Removed] = BackgroundTask("removal")
        self._asked: list[RunSummary] = []
        self._waiting: deque[RunSummary] = deque()
        """Runs to be deleted; the first is being deleted."""
        self._gone: list[tuple[RunSummary, Removed]] = []
        """What was deleted since the question."""
        for menu in panels.run_menus:
            menu.remove_asked.connect(lambda run_dir: self._check([run_dir]))
        panels.runs.several_asked.connect(lambda name: self._check(panels.runs.ticked) if name == "remove" else None)

    @property
    def busy(self) -> bool:
        """Whether runs are being looked at or deleted."""
        return self._checking.busy or self._removing.busy or bool(self._waiting)

    def poll(self) -> None:
        """Ask about runs that were checked, report what was deleted, and delete the next."""
        checks = self._checking.poll()
        if checks is not None:
            self._ask_about(self._asked, checks)
        removed = self._removing.poll()
        if removed is not None:
            self._gone.append((self._waiting.popleft(), removed))
            if not self._waiting:
                self._report()
        self._go_on()

    def _check(self, run_dirs: Sequence[str]) -> None:
        wanted = set(run_dirs)
        chosen = [each for each in self._run_list.summaries if str(each.dir) in wanted]
        folders = [each.dir for each in chosen]
        if chosen and self._checking.start(
            lambda: [check_removal(each) for each in folders], lambda error: [_check_failed(error)] * len(folders)
        ):
            self._asked = chosen

    def _ask_about(self, chosen: Sequence[RunSummary], checks: Sequence[RemovalCheck]) -> None:
        """Ask about the runs that can be deleted, and say why the others cannot."""
        pairs = list(zip(chosen, checks, strict=True))
        possible = [(run, check.size_bytes) for run, check in pairs if not check.why_not]
        refused = {run.name: check.why_not for run, check in pairs if check.why_not}
        if len(chosen) == 1 and refused:
            self._message.show_message(checks[0].why_not, "bad")
        elif not possible:
            self._message.show_message(not_done(refused), "bad")
        elif len(chosen) == 1:
            self._ask_about_one(*possible[0])
        else:
            self._ask_about_several(possible, refused)

    def _ask_about_several(self, possible: Sequence[tuple[RunSummary, int]], refused: Mapping[str, str]) -> None:
        now, total = time.time(), disk(sum(size for _, size in possible))
        lines = [tr("{title} ({size})", title=run_title(run, now), size=disk(size)) for run, size in possible[:NAMED]]
        if len(possible) > NAMED:
            lines.append(tr("and {count} more", count=len(possible) - NAMED))
        parts = [
            tr("They take {size} of disk. Their folders are deleted, with curves, logs and checkpoints:", size=total),
            "\n".join(lines),
            not_done(refused) if refused else "",
            tr("This cannot be undone."),
        ]
        ask(
            self._panels.window,
            lambda: self._waiting.extend(run for run, _ in possible),
            question=tr_plural("Delete {count} run?", "Delete {count} runs?", len(possible)),
            words="\n\n".join(part for part in parts if part),
            yes=tr("Delete them"),
        )

    def _ask_about_one(self, chosen: RunSummary, size_bytes: int) -> None:
        ask(
            self._panels.window,
            lambda: self._waiting.append(chosen),
            question=tr("Delete the run {title}?", title=run_title(chosen, time.time())),
            words=tr(
                "It is {state} and takes {size} of disk. Its "
                "folder is deleted, with its curves, its log and its checkpoints:\n{folder}\n\n"
                "This cannot be undone.",
                state=tr(state_info(chosen.state).label).lower(),
                size=disk(size_bytes),
                folder=chosen.dir,
            ),
            yes=tr("Delete it"),
        )

    def _go_on(self) -> None:
        if not self._waiting or self._removing.busy:
            return
        run_dir = self._waiting[0].dir
        self._session.leave(run_dir)
        self._removing.start(
            lambda: removal.remove(run_dir),
            lambda error: Removed(
                freed_bytes=0,
                problem=tr("{folder} could not be deleted: {reason}.", folder=run_dir, reason=reason(error)),
            ),
        )

    def _report(self) -> None:
        gone, self._gone = self._gone, []
        self._run_list.poll(now=True)
        problems = [removed.problem for _, removed in gone if removed.problem]
        done = [run for run, removed in gone if not removed.problem]
        freed = disk(sum(removed.freed_bytes for _, removed in gone))
        if problems:
            self._message.show_message(join_sentences(problems), "bad")
        elif len(done) == 1:
            self._message.show_passing(
                tr("Deleted {name}. This freed {size} of disk space.", name=done[0].name, size=freed)
            )
        else:
            self._message.show_passing(
                tr_plural(
                    "Deleted {count} run. This freed {size} of disk space.",
                    "Deleted {count} runs. This freed {size} of disk space.",
                    len(done), size=freed,
                )
            )  # fmt: skip


def check_removal(run_dir: Path) -> RemovalCheck:
    """Check whether a run can be deleted, and measure its size on disk. Blocks for seconds."""
    why_not = removal.why_not(run_dir)
    return RemovalCheck(why_not=why_not, size_bytes=0 if why_not else removal.size_bytes(run_dir))


def _check_failed(error: Exception) -> RemovalCheck:
    return RemovalCheck(why_not=tr("The run could not be checked: {reason}.", reason=reason(error)))
