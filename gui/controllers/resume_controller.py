"""Resumer: has a run resumed while the window stays alive: its new supervisor may take seconds to come up."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from core.errors import RunError
from core.runs.run import Run
from gui.viewmodels.setup.device_sharing import SharedDeviceQuestion, shared_device_question
from gui.viewmodels.setup.start_check import resume_problems

if TYPE_CHECKING:
    from pathlib import Path

    from gui.services.device_monitor import DeviceMonitor
    from gui.services.run_list import RunListService
    from gui.services.run_session import RunSession
    from gui.viewmodels.setup.device_sharing import Neighbour


class ResumeController(QObject):
    """One run at a time. That the run goes on is seen by whoever follows it; `poll` only says how the asking ended."""

    asked = Signal(SharedDeviceQuestion)
    """Whether to go on beside other runs on the same devices; its `neighbours`, after a yes, are for `resume`."""
    ended = Signal(str)
    """Why it could not be resumed; no text when it was."""

    def __init__(self, board: RunListService, monitor: DeviceMonitor) -> None:
        super().__init__()
        self._board, self._monitor = board, monitor
        self._run_dir: Path | None = None
        self._thread: Thread | None = None
        self._problem = ""

    def is_resuming(self, run: Run | None) -> bool:
        """Whether it is this run that is being resumed."""
        return self._thread is not None and run is not None and run.dir == self._run_dir

    def resume(self, session: RunSession, *, agreed: frozenset[Neighbour] = frozenset()) -> None:
        """Have the run resumed that is looked at; asked again meanwhile, it does nothing.

        `agreed`: also beside these runs; before it goes on beside any other, that is asked. Raises `ValueError` with
        sentences when something is in the way.
        """
        if session.run is None or self._thread is not None:
            return
        self._board.poll(now=True)
        if session.spec is not None:
            problems = resume_problems(session.spec, session.facts, self._monitor.survey)
            if problems:
                raise ValueError(" ".join(problems))
            question = shared_device_question(
                "Resume", session.spec, self._monitor.survey, self._board.on_devices, agreed=agreed, own=session.run.dir
            )
            if question is not None:
                self.asked.emit(question)
                return
        self._run_dir, self._problem = session.run.dir, ""
        # A daemon: a window that is closed waits for nobody, and the supervisor comes up without it.
        self._thread = Thread(target=self._work, args=(session.run.dir,), name="resume", daemon=True)
        self._thread.start()

    def poll(self) -> None:
        """Say how it ended, once it has."""
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
            self.ended.emit(self._problem)

    def _work(self, run_dir: Path) -> None:
        try:
            Run.resume(run_dir)
        except (RunError, ValueError) as error:
            self._problem = str(error)
