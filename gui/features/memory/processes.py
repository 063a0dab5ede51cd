"""The tab Processes, and the controller of both tabs: it fills them, and terminates what the user selects."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QPixmap, QResizeEvent
from PySide6.QtWidgets import QFrame

from core.devices.device import Sample, Survey
from core.devices.names import list_labels, short_name, shown_name
from core.language import join_sentences, tr, tr_noop
from core.runs.facts import state_info
from core.schema.event_kinds import ProcessInfo
from core.system.own_processes import is_trainyard
from core.system.processes import ProcessId
from core.system.procfs import available_bytes
from core.text import one_line
from gui.base.colours import device_colours, device_labels
from gui.base.formatting import DASH, age, memory, memory_size, percent
from gui.base.text_size import scaled
from gui.base.theme import current_theme, look
from gui.features.memory import scanner
from gui.features.memory.scanner import KnownRuns, OrphanScanner, ProcessEntry, ProcessTerminator
from gui.features.memory.tab import THIS_RUN, MemoryKnowledge, memory_bars, swatch
from gui.runs.verdicts import ended_words, no_verdict_words, remedies, seen_words, verdict_rows
from gui.widgets.buttons import compact_button
from gui.widgets.dialogs import ask
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.layouts import hbox, vbox
from gui.widgets.plain_text import named, verbatim
from gui.widgets.table import STRETCH, Column, RowsTable, empty_label
from gui.window.feature import Feature

COMMAND_LENGTH = 400
"""Maximum characters of a command line in a question about one process."""
MAX_COMMAND = 2000
"""Maximum characters of a command line in the table: it may have megabytes, which Qt would lay out at every frame."""
HOW_ENDED = tr_noop(
    "It is asked to end (SIGTERM) and killed some seconds later if it has not (SIGKILL). Its unsaved data are lost."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRow:
    """One process, ready to be shown."""

    entry: ProcessEntry
    device_id: str | None = None
    """One of its devices; None if it has none, or they are unknown."""
    device: str = ""
    """The name of this device."""
    number: int = 0
    """The place of this device in the list of all."""
    colour: str = ""
    """`#rrggbb` of this device."""
    share_percent: float | None = None
    """Its share of this device's time."""
    cpu_percent: float | None = None
    """What it uses of one core."""
    resident_bytes: int | None = None
    """The memory of the machine that it uses."""
    run: str | None
    """The run that it belongs to, in words; the empty string for none, None if it is not known."""
    of_this_run: bool
    why_not: str
    """Why it cannot be ended here, as a sentence; the empty string if it can."""
    head: Mapping[str, str] | None = None
    """The texts of a row above the processes of a device, by column; None for a process."""

    @property
    def info(self) -> ProcessInfo:
        """The process."""
        return self.entry.info

    @property
    def key(self) -> tuple[int, float | None, str | None]:
        """Pid and start time, which identify the process, and the device."""
        return self.info.pid, self.info.created, self.device_id

    @property
    def memory_bytes(self) -> int | None:
        """The memory of this device that it holds; on CPU devices, its resident memory."""
        return self.entry.on_gpus.get(self.device_id or "", self.info.memory_used_bytes)


def process_rows(
    entries: Sequence[ProcessEntry], labels: Mapping[str, str], runs: KnownRuns, colours: Mapping[str, str],
    survey: Survey,
) -> list[ProcessRow]:
    """Return a row for each process and device, those that hold most first.

    `labels`, `colours`: names and `#rrggbb` of the devices by id, in the order of their list; `survey`: their readings.
    """
    numbers = {device: number for number, device in enumerate(labels)}
    shares = {(sample.device_id, each.pid): each.utilisation_percent
              for sample in survey.samples for each in sample.processes or ()}
    rows = [
        ProcessRow(
            entry=entry, device_id=device, device=labels.get(device or "", device or ""),
            number=numbers.get(device or "", len(numbers)), colour=colours.get(device or "", ""),
            share_percent=shares.get((device or "", entry.info.pid)), run=_run_words(entry, runs),
            cpu_percent=entry.usage and entry.usage.cpu_percent,
            resident_bytes=entry.usage and entry.usage.resident_bytes,
            of_this_run=runs.shown is not None and entry.info.run_id == runs.shown, why_not=why_not_end(entry, runs),
        )
        for entry in entries
        for device in entry.devices or (None,)
    ]
    return sorted(rows, key=lambda row: -(row.memory_bytes or 0))


def why_not_end(entry: ProcessEntry, runs: KnownRuns) -> str:
    """Return why a process cannot be ended here, or the empty string."""
    info = entry.info
    if info.name is None or info.created is None:
        return tr("Process {pid} is unknown here: it runs in a container or has already ended.", pid=info.pid)
    if not info.ours:
        return tr("It belongs to {user}; only that user can end it.", user=info.user or tr("another user"))
    if info.pid == os.getpid() or is_trainyard((info.command or "").split()):
        return tr("It is part of Trainyard.")
    if info.state == "Z":
        return tr("It has already ended; its parent process has not noticed yet.")
    if entry.leftover is not None or info.run_id is None:
        return ""
    name = runs.names.get(info.run_id, info.run_id)
    active = tr("It belongs to the active run {name}: stop that run instead.", name=name)
    perhaps = tr("It belongs to the run {name}, which may still be active.", name=name)
    return active if info.run_id in runs.living else perhaps


def confirmation(row: ProcessRow) -> tuple[str, str]:
    """Return the question before ending a process, and details about it."""
    info = row.info
    question = tr("End {name} (pid {pid})?", name=info.name, pid=info.pid)
    why = row.entry.leftover.why if row.entry.leftover else tr("It does not belong to a run of Trainyard.")
    running = tr("It has been running for {time}.", time=age(info.age_s))
    if info.memory_used_bytes:
        memory = memory_size(info.memory_used_bytes)
        running = tr("It has been running for {time} and uses {memory}.", time=age(info.age_s), memory=memory)
    command = one_line(info.command or info.name or "", COMMAND_LENGTH)
    return question, "\n\n".join((command, f"{why} {running}", tr(HOW_ENDED)))


def command_words(info: ProcessInfo) -> str:
    """Return a command line as the table shows it, or why it is unknown."""
    if info.command:
        return one_line(info.command, MAX_COMMAND)
    return DASH if info.name else tr("in a container, or already ended")


def _run_words(entry: ProcessEntry, runs: KnownRuns) -> str | None:
    run_id = entry.info.run_id
    if run_id is None:  # only its user may read the environment that names it
        return "" if entry.info.ours else None
    if run_id == runs.shown:
        return tr("this run") if entry.leftover is None else tr("this run (leftover)")
    name = runs.names.get(run_id, run_id)
    return name if entry.leftover is None else tr("{name} (leftover)", name=name)


NONE_CHOSEN = tr_noop("Select a process first")
NOT_TOLD = tr_noop("The driver does not tell this of the process.")
NOT_READ = tr_noop("It was not read yet, or only the user of the process may read it.")
NARROW_PX, NARROW = 700, ("resident_bytes", "cpu_percent", "run")
"""Width below which these columns are hidden."""
SHOWN_S = 5.0
"""Seconds between two looks at what the processes use."""
NO_PROCESS, ASLEEP, NOT_KNOWN = tr_noop("no process"), tr_noop("asleep"), tr_noop("processes not known")
NO_ENTRY, NOT_READ_NOW = ProcessEntry(info=ProcessInfo(pid=0), devices=()), Sample(device_id="", time=0.0)


def heads(rows: Sequence[ProcessRow], survey: Survey, stale: Collection[str]) -> list[ProcessRow]:
    """Return a row for each device with processes, to be shown above them, and a last one for the GPUs without any.

    `stale`: the devices whose readings are outdated.
    """
    now = {each.device_id: each for each in survey.samples if each.device_id not in stale}
    devices, used, found = {each.id: each for each in survey.devices}, {row.device_id: row for row in rows}, []
    head = partial(ProcessRow, entry=NO_ENTRY, run="", of_this_run=False, why_not=tr(NONE_CHOSEN))
    for row in used.values():
        device, sample = devices.get(row.device_id or ""), now.get(row.device_id or "", NOT_READ_NOW)
        texts = {"name": row.device or tr("On no known device")}
        if device is not None:
            total = None if device.kind == "cpu" else device.memory_total_bytes
            texts |= {"share_percent": percent(sample.utilisation_percent),
                      "memory_bytes": memory(sample.memory_used_bytes, total),
                      "command": short_name(shown_name(device.name))}
        found.append(head(device_id=row.device_id, number=row.number, colour=row.colour, head=texts))
    idle: dict[str, list[str]] = {}
    for device in survey.devices:
        sample = now.get(device.id, NOT_READ_NOW)
        if device.kind != "cpu" and device.id not in used and not sample.processes:
            words = ASLEEP if sample.asleep else NOT_KNOWN if sample.processes is None else NO_PROCESS
            idle.setdefault(words, []).append(device.label)
    last = max((row.number for row in rows), default=0) + 1
    return found + [head(number=last, head={"name": tr("{where}: {text}", where=list_labels(each), text=tr(words))})
                    for words, each in idle.items()]


class ProcessesTab(QFrame):
    """The table, and below it a note and the button."""

    end_asked = Signal(object)
    """A `ProcessRow` that may be ended; the receiver asks the user first."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "processesTab", tr("Processes on the devices"))
        title, columns = tr("Processes on the devices"), _columns()
        self.table = RowsTable(
            "processTable", title, columns, key=lambda row: row.key, sorted_by="memory_bytes",
            group=lambda row: (row.number, row.head is None),
        )
        self.table.offer("processTableMenu", "processes")
        spoken, end = tr("End the selected process (asks first)"), self._request_end
        self.end_button = compact_button("endProcess", tr("End…"), role="danger", spoken=spoken, does=end)
        self.words = ElidedLabel(name="processWords", role="small")
        self.empty = named(empty_label(), "noProcesses")
        self.empty.hide()
        self._problem = ""
        self.table.chosen_changed.connect(self._show_selection)
        layout = vbox(self, self.empty, (self.table, 1), gap=4)
        hbox(layout, (self.words, 1), self.end_button, gap=6, margins=(6, 0, 0, 0))
        layout.addStretch(0)  # takes the height while the table is hidden
        self._show_selection()

    def show_rows(self, rows: Sequence[ProcessRow], *, empty: str, problem: str) -> None:
        """Show these processes. `empty`: text if there are none; `problem`: what could not be read."""
        self._problem = problem
        self.empty.setText(empty)
        self.empty.setVisible(not rows)
        self.table.show_rows(rows)
        self.table.clearSpans()
        for at, row in enumerate(self.table.rows):
            if row.head:  # whose next columns are empty
                self.table.setSpan(at, 0, 1, 2 if len(row.head) > 1 else self.table.model().columnCount())
        self.table.setVisible(bool(rows))
        self.end_button.setVisible(bool(rows))
        self._show_selection()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """End the selected process on Delete."""
        if event.key() == Qt.Key.Key_Delete:
            self._request_end()
        else:
            super().keyPressEvent(event)

    def choose_device(self, device: str) -> None:
        """Select the first process on a device, by its id."""
        self.table.clearSelection()
        self.table.choose(next((row.key for row in self.table.rows if row.device_id == device and not row.head), None))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Hide some columns if there is little room; the tooltip has the run."""
        super().resizeEvent(event)
        for name in NARROW:
            self.table.setColumnHidden(self.table.place(name), event.size().width() < scaled(NARROW_PX))

    def _request_end(self) -> None:
        row = self.table.chosen()
        if row is not None and not row.why_not:
            self.end_asked.emit(row)

    def _show_selection(self) -> None:
        row = self.table.chosen()
        why_not = tr(NONE_CHOSEN) if row is None else row.why_not
        if why_not and self.window().focusWidget() is self.end_button:
            self.table.setFocus()  # Qt would move it to another card
        self.end_button.setEnabled(not why_not)
        tip = why_not
        if row is not None and not why_not:
            tip = tr("End {name} (pid {pid}); asks first (Delete)", name=row.info.name, pid=row.info.pid)
        self.end_button.setToolTip(verbatim(tip))
        about = [] if row is None else [row.why_not, scanner.family(row.info)]
        self.words.setText(join_sentences([*about, self._problem]))


def _columns() -> list[Column[ProcessRow]]:
    of_core = tr("What it uses of one core: 200 % are two cores")
    columns: tuple[Column[ProcessRow], ...] = (
        Column("device", lambda row: row.device_id, None),
        Column("pid", lambda row: row.info.pid or None, None),
        Column("name", lambda row: row.info.name, tr("Process"), lambda row: f"{row.info.name or 'pid'} {row.info.pid}",
               sort=lambda row: row.info.name and (row.info.name, row.info.pid), icon=_square, width_px=118),
        Column("user", lambda row: row.info.user, tr("Owner"), width_px=66),
        Column("share_percent", lambda row: row.share_percent, tr("% SM"), lambda row: percent(row.share_percent),
               about=tr("Share of the device's time in which its kernels ran"), is_number=True, is_descending=True,
               width_px=58),
        Column("memory_bytes", lambda row: row.memory_bytes, tr("Memory"), lambda row: memory_size(row.memory_bytes),
               about=tr("Memory of the device"), is_number=True, is_descending=True, width_px=112),
        Column("resident_bytes", lambda row: row.resident_bytes, tr("Host"),
               lambda row: memory_size(row.resident_bytes), about=tr("Memory of the machine"), is_number=True,
               is_descending=True, width_px=66),
        Column("cpu_percent", lambda row: None if row.cpu_percent is None else round(row.cpu_percent, 1), "CPU",
               lambda row: percent(row.cpu_percent), about=of_core, is_number=True, is_descending=True, width_px=58),
        Column("age_s", lambda row: None if row.info.age_s is None else round(row.info.age_s, 1), tr("Time"),
               lambda row: age(row.info.age_s), is_number=True, is_descending=True, width_px=60),
        Column("run", lambda row: row.info.run_id, tr("Whose run"), lambda row: row.run,
               sort=lambda row: row.run or None, width_px=136,
               tone=lambda row: "accent" if row.of_this_run else _tone(row)),
        Column("command", lambda row: row.info.command, tr("Command"), lambda row: command_words(row.info),
               width_px=STRETCH),
    )
    return [
        replace(each, text=partial(_text, each), tip=partial(_tip, each), tone=each.tone or _tone,
                is_bold=lambda row: row.of_this_run or bool(row.head))
        for each in columns
    ]


def _square(row: ProcessRow) -> QPixmap | None:
    return swatch(row.colour, THIS_RUN, current_theme(), 1.0) if row.head and row.colour else None


def _text(column: Column[ProcessRow], row: ProcessRow) -> str | None:
    return row.head.get(column.name, "") if row.head else column.cell(row)


def _tip(column: Column[ProcessRow], row: ProcessRow) -> str:
    """Return a cell, why it is unknown, the run, and why the process cannot be ended; of a head its texts."""
    if row.head:
        return "\n".join(row.head.values())
    is_known = row.run is not None if column.name == "run" else column.value is None or column.value(row) is not None
    why = "" if is_known else tr(NOT_TOLD if column.name in {"share_percent", "memory_bytes"} else NOT_READ)
    return "\n".join(filter(None, dict.fromkeys((column.cell(row), why, row.run, row.why_not))))


def _tone(row: ProcessRow) -> str:
    return "muted" if row.why_not and not row.of_this_run and not row.head else "text"


NO_HOLDER = tr_noop("No process holds memory of a device.")
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
        self._stale, self._shown_at = True, 0.0
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
        self._stale, self._shown_at = False, time.monotonic()
        if self._details.memory.isVisible():
            self._show_memory()
        else:
            self._show_processes()

    def _show_memory(self) -> None:
        survey, session, facts = self._monitor.survey, self._session, self._session.facts
        everywhere = self._monitor.all_machines.devices
        colours = device_colours(everywhere, session.spec.devices if session.spec else (), current_theme())
        looked_at, users = session.run.dir if session.run else None, self._run_list.on_devices
        known = MemoryKnowledge(
            processes=self._scanner.device_processes,
            run_id=session.run.id if session.run else None,
            memory_of_run=session.memory_now(),
            available_bytes=available_bytes() if self._machine.is_here else None,
            stale_age_s=self._monitor.stale_age_s,
            other_runs_on=[each for each, on_it in users.items() if any(run.dir != looked_at for run in on_it)],
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

    def _show_processes(self) -> None:
        survey, facts = self._monitor.survey, self._session.facts
        if not self._machine.is_here:
            self._details.processes.show_rows([], empty=tr(THERE, host=self._machine.host), problem="")
            return
        everywhere = self._monitor.all_machines.devices
        labels, colours = device_labels(everywhere, facts), device_colours(everywhere, (), current_theme())
        rows = process_rows(self._scanner.entries(), labels, self._scanner.runs(), colours, survey)
        empty = NO_HOLDER if any(device.kind != "cpu" for device in survey.devices) else NO_GPU
        rows += heads(rows, survey, self._monitor.stale_age_s) if rows else []
        self._details.processes.show_rows(rows, empty=tr(empty), problem=self._scanner.problem or "")

    def _turned(self) -> None:
        self._scanner.scan_soon()
        if self._details.shows_processes:
            self._show()

    def outdate(self) -> None:
        """Fill the page that can be seen again at the next poll."""
        self._stale = True

    def take_readings(self) -> None:
        """Fill it again now and then: what processes use is no news."""
        self._stale |= time.monotonic() - self._shown_at >= SHOWN_S

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
            question, words = scanner.leftovers_confirmation(found)
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
        words = scanner.leftovers_sentence(self._orphans.found, names)
        is_new = not self._shown_orphans <= before  # the end of an orphan is not reported
        self._strip.show_message(words, "warn", is_new=is_new)
