"""Show the run that the window is attached to in all panels, and pass on what its buttons ask for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from PySide6.QtCore import QEvent

from core.devices.device import devices_here
from core.diagnosis.causes import LOG_BYTES
from core.doctor.examination import Diagnosis, examine
from core.language import join_sentences, tr
from core.runs.facts import state_info
from core.runs.run import Run
from core.text import join_phrases
from gui.base.colours import device_colours, device_labels
from gui.base.jobs import Jobs
from gui.base.theme import current_theme, look
from gui.features.run.events import failure_view
from gui.features.run.head import ReadingBar, show_in_task_bar
from gui.features.run.settings import run_settings
from gui.runs.progress import READING, Place, Situation, empty_words, plot_words, situation_of
from gui.runs.rows import run_rows, waiting_words
from gui.runs.verdicts import note, run_message
from gui.runs.words import run_header, stop_question
from gui.widgets.dialogs import ask
from gui.widgets.layouts import Watch
from gui.widgets.messages import open_line
from gui.window.feature import Feature


class RunController(Feature):
    """It keeps nothing: the session has the run, and the list of runs has all others."""

    def set_up(self) -> None:
        panels, services = self.panels, self.services
        self._tables, self._queue = services.scaling_tables, services.queue
        self._reading: ReadingBar | None = None
        self._words = ""
        """What makes the shown run different; empty until the list of runs has it."""
        self._fractions: list[float | None] = []  # of each run that goes on
        self._in_task_bar: float | None = None
        session, buttons = self._session, panels.header.buttons
        self._doctor = Jobs(self, "doctor")
        panels.actions.provide(doctor=lambda run_dirs: self._examine(Path(run_dirs[0])))
        session.attached.connect(self._show_other)
        session.attached.connect(panels.setup.sheet.close_sheet)  # it would hide the curves of the run
        session.changed.connect(self.show_facts)
        session.read_on.connect(self._show_reading)
        session.ended.connect(lambda: self._run_list.poll(now=True))  # so that the list shows the end, too
        self._run_list.changed.connect(self._show_list)
        self._queue.changed.connect(self._show_list)
        self._tables.changed.connect(self._show_list)
        services.devices.changed.connect(self.show_curves)
        services.compared.changed.connect(self.show_facts)
        panels.scroll.covered.connect(self.show_facts)
        look.changed.connect(self.show_curves)
        panels.runs.chosen.connect(self.attach_to)
        panels.runs.turned.connect(lambda path: self._tables.turn(Path(path)))
        panels.runs.more_wanted.connect(self._show_list)
        panels.machine.clicked.connect(self.show_machine)
        panels.menu.provide(machine=panels.machine.click)
        panels.run_message.details.clicked.connect(panels.details.raise_memory)
        panels.failure.log_button.clicked.connect(self._show_failure_in_log)
        panels.failure.editor_button.clicked.connect(self._open_in_editor)
        panels.details.tabs.currentChanged.connect(lambda _: self._show_settings())
        Watch(self, panels.header.what, {QEvent.Type.MouseButtonRelease}, self._show_numbers)
        buttons.stop_asked.connect(self._stop)
        buttons.force_asked.connect(lambda: self.panels.message.attempt(session.force))
        buttons.pause_asked.connect(lambda: self.panels.message.attempt(session.pause))
        buttons.save.clicked.connect(lambda: self.panels.message.attempt(session.save))
        session.resuming_changed.connect(self.show_head)

    def attach_to(self, run_dir: str) -> None:
        """Show this run of the list."""
        found = next((each.dir for each in self._run_list.summaries if str(each.dir) == run_dir), None)
        if found is None:
            return
        if self._session.run is None or self._session.run.dir != found:
            self.panels.message.clear()  # other messages were about the last
        self.panels.message.attempt(lambda: self._session.attach_to(found))

    def _examine(self, run_dir: Path) -> None:
        """Say why a run hangs, some seconds later."""
        message = self.panels.message

        def show(diagnosis: Diagnosis) -> None:  # the window may show another run by then
            said = tr("{name}: {reason}", name=run_dir.name, reason=diagnosis.sentence)
            message.show_message(said, "warn" if diagnosis.blamed else "good")

        if self._doctor.start(
            lambda: examine(Run.attach(run_dir))[0], show, lambda error: message.show_message(str(error), "bad")
        ):
            message.show_message(tr("Examining the workers of {run} …", run=run_dir.name), "good")

    def opened(self) -> None:
        """Show the live run that was started last, unless a run is shown already."""
        live = self._run_list.newest_live()
        if live is not None and self._session.run is None:
            self.panels.message.attempt(lambda: self._session.attach_to(live))

    def show_machine(self) -> None:
        """Show the devices of this machine, and no run."""
        self.panels.machine.show_chosen(chosen=True)  # a click on it has unchecked it
        if self._session.run is not None:
            self.panels.message.clear()  # others were about the run
            self._session.show_none()

    def poll(self) -> None:
        """Bring the head and the plots up to date."""
        self.show_head()
        self.panels.plots.redraw_in_turns()

    def leave(self) -> bool:
        """Show the devices of this machine, and no run."""
        self.show_machine()
        return True

    def carry(self, former: Self) -> None:
        """Show the same run, waiting for the same answers, and the same tab about it."""
        self._run_list.poll(now=True)
        session, run = self._session, former.services.session.run
        if run is not None and run.dir.is_dir():
            session.attach(Run(run.dir))
            session.take_requests(former.services.session)
        tab = former.panels.details.currentIndex()
        if self.panels.details.tabs.isTabVisible(tab):
            self.panels.details.tabs.setCurrentIndex(tab)

    def show(self) -> None:
        """Show the run of the session, or none, in all panels."""
        self._show_other()
        self.show_facts()

    def _show_other(self) -> None:
        """Show what does not change while a run is shown. The session reports its facts after this: `show_facts`."""
        run_dir = self._session.run.dir if self._session.run else None
        summary = self._run_list.summary(str(run_dir))
        self._words = "" if summary is None else self._run_list.differences.words(summary)
        self.panels.machine.show_chosen(chosen=run_dir is None)
        self.panels.details.log.show_run(run_dir)
        self.panels.details.show_kind(is_script=self._session.is_script if self._session.run is not None else None)
        if run_dir is not None and self.panels.plots.live_devices:
            self.panels.scroll.verticalScrollBar().setValue(0)  # the loss is what one starts a run for
        self.show_curves()
        self._show_list()  # the time left of the shown run is known better than that of the others
        self.panels.header.again.show_run(run_dir)
        self.panels.plots.redraw_in_turns()

    def _show_reading(self, share: float) -> None:
        """Show the share of a long run that was read, and what is known of it at once."""
        if self._reading is None:
            self._reading = ReadingBar(self.panels.plots)
        self._reading.show_share(share)
        if share in {0.0, 1.0}:
            self.panels.plots.redraw_in_turns()

    def show_curves(self) -> None:
        """Show everything that was measured, in the colours of the theme; the curves follow by themselves."""
        present, spec = self._monitor.all_machines.devices, self._session.spec
        colours = device_colours(present, spec.devices if spec else (), current_theme())
        labels, is_live = device_labels(present, self._session.facts), self._shows_live_devices
        if spec is not None and not is_live:
            # The plots make room for all of these, and those of other machines are long.
            known = {*spec.devices, *devices_here(labels)}
            labels = {device: label for device, label in labels.items() if device in known}
        run_series, live = self._session.run_series, self._monitor.series
        drawn = [each.id for each in present] if spec is None or is_live else spec.devices
        sizes = {device.id: device.memory_total_bytes for device in present if device.memory_total_bytes}
        self.panels.plots.show_series(
            run_series, live, colours, labels, live_devices=is_live, devices=drawn, sizes=sizes
        )

    @property
    def _shows_live_devices(self) -> bool:
        """Whether the plots of the devices show the present: without a run, or if it ended before any reading."""
        session = self._session
        if session.run_series is None:
            return True
        is_read = session.opening is not None
        return not is_read and state_info(session.facts.state).over and not session.run_series.has_readings

    def show_facts(self) -> None:
        """Show the state of the run and what went wrong in it."""
        session, facts, panels = self._session, self._session.facts, self.panels
        self.show_head()
        if panels.plots.live_devices is not self._shows_live_devices:
            self.show_curves()
        panels.details.events.show_timeline(session.timeline)
        self._show_empty_words()
        message = run_message(facts, session.spec_problem, time.time())
        to_do, text = tr("What to do"), "" if panels.plots.replaced else message.text
        panels.run_message.show_message(text, message.tone, details=message.details, details_text=to_do)
        labels = device_labels(self._monitor.all_machines.devices, facts)
        self._show_failure(labels)
        panels.plots.show_memory_note(*note(facts, labels))
        panels.plots.show_facts(facts)
        error = (session.spec_problem, tr(facts.error), facts.traceback) if facts.error else ()
        panels.details.show_error("\n\n".join(text for text in error if text))
        self._show_settings()

    def _show_empty_words(self) -> None:
        """Set what stands where there is nothing to show."""
        session, details = self._session, self.panels.details
        are_runs = bool(self._run_list.summaries) or not self._machine.knows_runs
        situation = situation_of(session.facts, is_shown=session.run is not None, are_runs=are_runs)
        is_first = situation is Situation.FIRST and bool(self.panels.plots.plots)
        focus = self.panels.window.focusWidget()
        if not is_first and focus is not None and self.panels.first_steps.isAncestorOf(focus):
            self.panels.runs.setFocus()  # Qt would move it to a control of the plot
        self.panels.first_steps.show_heading(empty_words(Place.LOSS, situation) if is_first else "")
        live = self._shows_live_devices
        is_cpu_only = all(device.kind == "cpu" for device in self._monitor.survey.devices)
        is_read = session.opening is not None
        details.events.show_empty_words(tr(READING) if is_read else empty_words(Place.EVENTS, situation))
        details.log.show_empty_words(empty_words(Place.LOG, situation))
        may_teach = session.is_script and self._machine.is_here and not is_read
        self.panels.plots.offer_teaching(may_teach and situation in {Situation.RUNNING, Situation.OVER})

        def words(name: str) -> str:
            if is_first and name == Place.LOSS.value:
                return ""
            if is_read:
                return tr(READING)
            of_plot = Situation.MACHINE if live and name != "lossPlot" else situation
            return plot_words(name, of_plot, is_script=session.is_script, is_cpu_only=is_cpu_only)

        self.panels.plots.show_empty_words(words)

    def _show_failure(self, labels: Mapping[str, str]) -> None:
        """Show the card about a failure, if there is one. `labels`: by device id."""
        session = self._session
        if session.facts.error is None or self.panels.plots.replaced:
            self.panels.failure.show_failure(None)
            return
        log_end = session.run.log_end(LOG_BYTES) if session.run is not None else ""
        view = failure_view(session.facts, session.spec, log_end=log_end, labels=labels)
        is_own = self._machine.is_here and session.run is not None and session.run.owner is None
        self.panels.failure.show_failure(view, is_own=is_own)

    def _show_failure_in_log(self) -> None:
        shown = self.panels.failure.shown
        if shown is not None:
            self.panels.details.raise_log(shown.rank, shown.sought)

    def _open_in_editor(self) -> None:
        shown = self.panels.failure.shown
        if shown is not None and shown.place is not None:
            open_line(Path(shown.place.file), shown.place.line, self._message)

    def _show_settings(self) -> None:
        """Show what the run was trained with, if that tab is chosen."""
        session, view = self._session, self.panels.details.settings
        if not self.panels.details.shows_settings:
            return
        if session.run is None or session.spec is None:
            situation = situation_of(session.facts, is_shown=session.run is not None)
            view.show_settings(None, session.spec_problem or empty_words(Place.SETTINGS, situation))
            return
        labels = device_labels(self._monitor.all_machines.devices, session.facts)
        view.show_settings(run_settings(session.spec, session.facts, labels, str(session.run.dir)), "")

    def show_head(self) -> None:
        """Show its name, its state and its progress."""
        session, compared = self._session, len(self.services.compared.value)
        waiting = waiting_words(self._queue.runs, session.run.dir if session.run else None, time.time())
        live = len({run.dir for runs in self._run_list.on_devices.values() for run in runs})
        header = run_header(session.snapshot(), resuming=session.is_resuming, compared=compared, waiting=waiting,
                            words=self._words, live=live)
        self.panels.header.show_header(header)
        self.panels.plots.show_start(header.starting)
        done = [header.fraction] if session.live else self._fractions
        fraction = round(done[0], 2) if len(done) == 1 and done[0] is not None else None
        if fraction != self._in_task_bar:
            self._in_task_bar = fraction
            show_in_task_bar(fraction)

    def _show_numbers(self) -> None:
        """Say where the time of a step goes, if it was measured."""
        shown = self._session.snapshot()
        if shown and (found := shown.diagnosis) and (step_s := found.parts["seconds"]):
            told = [tr("{part} {ms:.3g} ms", part=tr(part), ms=1000 * each)
                    for part, each in found.parts.items() if each and part != "seconds"]
            said = tr("A step takes {ms:.3g} ms: {parts}.", ms=1000 * step_s, parts=join_phrases(told))
            self.panels.message.show_message(join_sentences([found.sentence, said]), "good")

    def _show_list(self) -> None:
        self._show_empty_words()  # the first run may have been started, or the last one deleted
        service, runs = self._run_list, self.panels.runs
        by_day, run = not service.search.order, self._session.run
        found = self._tables.fold(service.found)
        shown = (run.dir, self._session.progress()) if run is not None else None
        listed = next((each for each in found[: runs.wanted] if run is not None and each.dir == run.dir), None)
        self._words = self._words if listed is None else service.differences.words(listed)
        words, view = service.differences.words, self._queue.view
        rows = run_rows(found, time.time(), limit=runs.wanted, by_day=by_day, words=words, queue=view, shown=shown)
        self._fractions = [row.fraction for row in rows if row.fraction is not None]
        runs.show_rows(rows)
        runs.mark_chosen(run.dir if run is not None else None)

    def _stop(self) -> None:
        """Stop the run; ask before, if it has trained long since it was saved."""
        session, run, shown = self._session, self._session.run, self._session.snapshot()
        asked, refusal = None, ""
        if shown is not None:
            refusal = shown.refusal("pause") if shown.spec else shown.spec_problem or ""
            name = shown.spec.name if shown.spec else shown.id
            asked = stop_question(shown.facts, name, time.time(), refusal=refusal)
        if asked is None:
            self.panels.message.attempt(session.stop)
            return

        def answer(action: Callable[[], object]) -> None:
            if session.run is run and state_info(session.facts.state).can_stop:  # it may have ended meanwhile
                self.panels.message.attempt(action)

        save: tuple[str, Callable[[], object]] = (tr("Save and stop"), lambda: answer(session.pause))
        other = None if refusal else save
        ask(self.panels.window, lambda: answer(session.stop), other=other, **asked._asdict())
