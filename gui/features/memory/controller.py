"""Fill the tabs Memory and Processes, show orphaned processes, and terminate those that the user selects."""

from __future__ import annotations

import time
from functools import partial

from core.language import tr, tr_noop
from core.memory_watch.verdict import remedies
from core.runs.facts import state_info
from core.system.processes import ProcessId
from core.system.procfs import available_bytes
from gui.base.colours import device_colours, device_labels
from gui.base.theme import current_theme, look
from gui.features.memory.processes import (
    ProcessRow,
    confirmation,
    leftovers_confirmation,
    leftovers_sentence,
    process_rows,
    why_not_end,
)
from gui.features.memory.scanner import OrphanScanner, ProcessTerminator
from gui.features.memory.tab import MemoryKnowledge, memory_bars
from gui.runs.verdicts import ended_words, no_verdict_words, seen_words, verdict_rows
from gui.widgets.dialogs import ask
from gui.window.feature import Feature

NOBODY = tr_noop("No process holds memory of a device.")
THERE = tr_noop(
    "The processes of {host} are not listed here: their numbers mean other processes on this machine. "
    "trainyard devices lists them on {host}."
)
NO_GPU = tr_noop("No GPU was found. Only processes of runs on CPU devices can be listed, and there are none now.")


class MemoryController(Feature):
    """`poll` never blocks."""

    def set_up(self) -> None:
        panels, services = self.panels, self.services
        self._scanner = services.process_scanner
        self._terminator = services.adopt(ProcessTerminator())
        self._orphans = services.adopt(OrphanScanner(self._machine.root, is_here=self._machine.is_here))
        self._details, self._strip = details, strip = panels.details, panels.leftovers
        self._stale = True
        self._shown_orphans: frozenset[ProcessId] = frozenset()
        """The orphaned processes that were shown last."""
        self._scanner.changed.connect(self.outdate)
        self._orphans.changed.connect(self._show_leftovers)
        self._terminator.ended.connect(self._take_outcome)
        details.processes.end_asked.connect(self._ask_to_end)
        read_it = tr("Copied the command. Read it before you run it in a terminal.")
        details.memory.remedies.copy_asked.connect(lambda command: self._message.copy(command, read_it))
        details.tabs.currentChanged.connect(lambda _: self._turned())
        strip.show_button.clicked.connect(details.raise_processes)
        strip.end_button.clicked.connect(self._ask_to_sweep)
        self._session.changed.connect(self.outdate)
        look.changed.connect(self.outdate)
        panels.menu.provide(processes=details.raise_processes, leftovers=self._find_leftovers)

    def opened(self) -> None:
        """Search for orphaned processes, once after the first poll."""
        self._orphans.scan()

    def poll(self) -> None:
        """Bring the pages that can be seen up to date."""
        self._monitor.watch_processes(self._scanner.just_ended)
        self._scanner.poll(shown=self._details.shows_processes)
        self._orphans.poll()
        if self._details.shows_processes and self._stale:
            self._show()

    # -- show --------------------------------------------------------------------------------

    def _show(self) -> None:
        """Fill the page that can be seen; the other page is filled when it is opened."""
        self._stale = False
        if self._details.memory.isVisible():
            self._show_memory()
        else:
            self._show_processes()

    def _show_memory(self) -> None:
        survey, session, facts = self._monitor.survey, self._session, self._session.facts
        everywhere = self._monitor.all_machines.devices
        colours = device_colours(everywhere, session.spec.devices if session.spec else (), current_theme())
        known = MemoryKnowledge(
            processes=self._scanner.device_processes,
            run_id=session.run.id if session.run else None,
            memory_of_run=session.memory_now(),
            available_bytes=available_bytes() if self._machine.is_here else None,
            stale_age_s=self._monitor.stale_age_s,
            other_runs_on=self._other_runs_on(),
        )
        page = self._details.memory
        page.show_rows(memory_bars(survey, colours, known))
        page.show_findings(
            verdict_rows(facts, device_labels(everywhere, facts), colours),
            ended_words(facts),
            no_verdict_words(facts, shown=session.run is not None),
            seen_words(facts, time.time()),
        )
        page.remedies.show_remedies(
            remedies(facts.releases.values(), facts.devices) if state_info(facts.state).over else ()
        )

    def _other_runs_on(self) -> frozenset[str]:
        """Return the devices that live runs use, other than the run that is shown."""
        looked_at, users = self._session.run.dir if self._session.run else None, self._run_list.on_devices
        return frozenset(each for each, on_it in users.items() if any(run.dir != looked_at for run in on_it))

    def _show_processes(self) -> None:
        survey, facts = self._monitor.survey, self._session.facts
        if not self._machine.is_here:
            self._details.processes.show_rows([], empty=tr(THERE, host=self._machine.host), problem="")
            return
        labels = device_labels(self._monitor.all_machines.devices, facts)
        rows = process_rows(self._scanner.entries(), labels, self._scanner.runs())
        empty = NOBODY if any(device.kind != "cpu" for device in survey.devices) else NO_GPU
        self._details.processes.show_rows(rows, empty=tr(empty), problem=self._scanner.problem or "")

    def _turned(self) -> None:
        self._scanner.scan_soon()
        if self._details.shows_processes:
            self._show()

    def outdate(self) -> None:
        """Fill the page that can be seen again at the next poll."""
        self._stale = True

    take_readings = outdate

    # -- terminate -----------------------------------------------------------------------------

    def _ask_to_end(self, chosen: ProcessRow) -> None:
        question, words = confirmation(chosen)
        ask(self.panels.window, lambda: self._end(chosen), question=question, words=words, yes=tr("End it"))

    def _end(self, chosen: ProcessRow) -> None:
        """End a process, unless it has become one that must not be ended since the question."""
        why_not = why_not_end(chosen.entry, self._scanner.runs())
        if why_not:
            self._message.show_message(f"{chosen.info.words}: {why_not}", "bad")
        else:
            self._terminator.end(chosen.entry)

    def _ask_to_sweep(self) -> None:
        found = self._orphans.found
        if found:
            question, words = leftovers_confirmation(found)
            yes, end = (
                tr("End them") if len(found) > 1 else tr("End it"),
                partial(self._terminator.end_leftovers, found),
            )
            ask(self.panels.window, end, question=question, words=words, yes=yes)

    def _find_leftovers(self) -> None:
        self._orphans.scan()
        self._details.raise_processes()

    def _take_outcome(self, sentence: str, tone: str) -> None:
        self._message.show_message(sentence, tone)
        self._orphans.scan()
        self._scanner.scan_soon()

    def _show_leftovers(self) -> None:
        names = {each.dir.name: each.name for each in self._run_list.summaries if state_info(each.state).over}
        before, self._shown_orphans = self._shown_orphans, frozenset(each.process for each in self._orphans.found)
        words = leftovers_sentence(self._orphans.found, names)
        is_new = not self._shown_orphans <= before  # the end of an orphan is not reported
        self._strip.show_message(words, "warn", is_new=is_new)
