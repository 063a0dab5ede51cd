"""Portrait: the run that is looked at, in all panes that show something of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from core.runs.states import state_info
from gui.style.device_colours import device_colours, device_labels
from gui.viewmodels.run.memory_verdicts import note
from gui.viewmodels.run.run_header import run_header
from gui.viewmodels.run.run_messages import run_message

if TYPE_CHECKING:
    from gui.services.device_monitor import DeviceMonitor
    from gui.services.run_session import RunSession
    from gui.style.theme import Theme

    from .dock_layout import MainPanels
    from .resume_controller import ResumeController


class RunPresenter:
    """Shows; it keeps nothing."""

    def __init__(
        self, panes: MainPanels, theme: Theme, *, session: RunSession, monitor: DeviceMonitor, resumer: ResumeController
    ) -> None:
        self._panes, self._theme = panes, theme
        self._session, self._monitor, self._resumer = session, monitor, resumer

    def show_run(self) -> None:
        """Another run is looked at, or none."""
        run_dir = self._session.run.dir if self._session.run else None
        self._panes.details.log.show_run(run_dir)
        self.show_books()
        self.mark_run()
        self._panes.header.again.show_run(run_dir)

    def show_books(self) -> None:
        """All that was measured; the curves go on by themselves."""
        present, spec = self._monitor.survey.devices, self._session.spec
        colours = device_colours(present, spec.devices if spec else (), self._theme)
        labels = device_labels(present, self._session.facts)
        self._panes.plots.show_series(self._session.book, self._monitor.book, colours, labels)

    def show_facts(self) -> None:
        """What has become of it."""
        session, facts, panes = self._session, self._session.facts, self._panes
        self.show_head()
        panes.details.log.show_over(over=session.run is not None and state_info(facts.state).over)
        message = run_message(facts, session.spec_problem, time.time())
        panes.run_message.show_message(message.text, message.tone, details=message.details)
        panes.plots.show_memory_note(*note(facts, device_labels(self._monitor.survey.devices, facts)))
        panes.plots.show_facts(facts)
        told = (session.spec_problem, facts.error, facts.traceback) if facts.error else ()
        panes.details.show_error("\n\n".join(text for text in told if text))

    def show_head(self) -> None:
        """Its name, and how far it is by now."""
        resuming = self._resumer.is_resuming(self._session.run)
        self._panes.header.show_head(run_header(self._session.snapshot(), resuming=resuming))

    def mark_run(self) -> None:
        """Which it is in the list."""
        self._panes.runs.mark_chosen(self._session.run.dir if self._session.run else None)

    def set_theme(self, theme: Theme) -> None:
        """Draw it in the colours of a theme."""
        self._theme = theme
        self.show_books()
