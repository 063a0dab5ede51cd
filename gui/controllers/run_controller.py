"""Helm: does what the buttons ask for, and asks first where two runs would share a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from core.errors import RunError
from gui.widgets.confirm_dialog import ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QWidget

    from core.schema.spec import RunSpec
    from gui.panels.runs.run_buttons import RunButtons
    from gui.services.run_list import RunListService
    from gui.services.run_session import RunSession
    from gui.viewmodels.setup.device_sharing import Neighbour, SharedDeviceQuestion

    from .resume_controller import ResumeController
    from .start_controller import StartController


class RunController(QObject):
    """What is in the way of something is said, never raised."""

    said = Signal(str)
    """A sentence on what went wrong; no text takes back what was said before."""
    resuming = Signal()
    """A run is being resumed from now on."""

    def __init__(
        self,
        window: QWidget,
        board: RunListService,
        session: RunSession,
        starter: StartController,
        resumer: ResumeController,
    ) -> None:
        super().__init__()
        self._window, self._board, self._session = window, board, session
        self._starter, self._resumer = starter, resumer
        starter.asked.connect(self._ask_to_start)
        starter.pressed.connect(self.start)
        resumer.asked.connect(self._ask_to_resume)

    def listen(self, buttons: RunButtons) -> None:
        """Do what these buttons say from now on."""
        session = self._session
        buttons.start_asked.connect(self.start)
        buttons.stop_asked.connect(lambda: self.attempt(session.stop))
        buttons.force_asked.connect(lambda: self.attempt(session.force))
        buttons.pause_asked.connect(lambda: self.attempt(session.pause))
        buttons.save_asked.connect(lambda: self.attempt(session.save))
        buttons.resume_asked.connect(self.resume)

    def start(self) -> None:
        """Start what is chosen."""
        self.attempt(self._starter.start)

    def start_again(self, spec: RunSpec) -> None:
        """Start the same as another run."""
        self.said.emit("")
        self.attempt(lambda: self._starter.start_again(spec))

    def attach_to(self, run_dir: str) -> None:
        """Look at this run of the list from now on."""
        found = next((each.dir for each in self._board.summaries if str(each.dir) == run_dir), None)
        if found is None:
            return
        if self._session.run is None or self._session.run.dir != found:
            self.said.emit(self._starter.folder_problem)  # what else was said was of the run before
        self.attempt(lambda: self._session.attach_to(found))

    def resume(self) -> None:
        """Go on with the run that is looked at."""
        self._resume()

    def attempt(self, action: Callable[[], object]) -> None:
        """Do it; what is in the way is said."""
        try:
            action()
        except (RunError, ValueError) as error:
            self.said.emit(str(error))
            self._starter.ask()

    def _resume(self, agreed: frozenset[Neighbour] = frozenset()) -> None:
        self.said.emit("")
        self.attempt(lambda: self._resumer.resume(self._session, agreed=agreed))
        self.resuming.emit()

    def _ask_to_start(self, asked: SharedDeviceQuestion) -> None:
        self._ask(asked, lambda: self.attempt(lambda: self._start_beside(asked)))

    def _start_beside(self, asked: SharedDeviceQuestion) -> None:
        if asked.again is not None:
            self._starter.start_again(asked.again, agreed=asked.neighbours)
        else:
            self._starter.start(agreed=asked.neighbours)

    def _ask_to_resume(self, asked: SharedDeviceQuestion) -> None:
        self._ask(asked, lambda: self._resume(asked.neighbours))

    def _ask(self, asked: SharedDeviceQuestion, agreed: Callable[[], None]) -> None:
        ask(self._window, agreed, question=asked.question, words=asked.words, yes=asked.yes, grave=False)
