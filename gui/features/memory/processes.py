"""The tab Processes: the programs on the devices."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QFrame

from core.history.removal import OrphanedProcess
from core.language import join_sentences, tr, tr_noop, tr_plural
from core.schema.event_kinds import ProcessInfo
from core.system.own_processes import is_trainyard
from core.text import first_names, join_names, one_line
from gui.base.formatting import DASH, age, memory_size
from gui.base.text_size import scaled
from gui.widgets.buttons import compact_button
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.layouts import hbox, vbox
from gui.widgets.plain_text import named, verbatim
from gui.widgets.table import STRETCH, Column, RowsTable, empty_label

COMMAND_LENGTH, SHORT_COMMAND = 400, 90
"""Maximum characters of a command line in a question about one process, and about several."""
MAX_COMMAND = 2000
"""Maximum characters of a command line in the table: it may have megabytes, which Qt would lay out at every frame."""
MAX_NAMES, MAX_LINES, MAX_REASONS = 3, 8, 4
HOW_ENDED = tr_noop(
    "It is asked to end (SIGTERM) and killed some seconds later if it has not (SIGKILL). Its unsaved data are lost."
)
OF_SEVERAL_RUNS = tr_noop(
    "{count} processes of {runs} ended runs are still running: {processes}. They may use memory of a device."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEntry:
    """A process on devices, or one that a run left behind."""

    info: ProcessInfo
    """`memory_used_bytes` is the sum over its devices, or resident memory for a process on CPU devices only."""
    devices: tuple[str, ...]
    """Device ids; empty if there are none or they are unknown."""
    leftover: OrphanedProcess | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRuns:
    """The runs that processes may belong to."""

    shown: str | None
    """Id of the shown run."""
    names: Mapping[str, str]
    """Names of all known runs by id."""
    living: frozenset[str]
    """Ids of active runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRow:
    """One process, ready to be shown."""

    entry: ProcessEntry
    devices: str
    """The names of its devices."""
    run: str
    """The run that it belongs to, in words; the empty string for none."""
    of_this_run: bool
    why_not: str
    """Why it cannot be ended here, as a sentence; the empty string if it can."""

    @property
    def info(self) -> ProcessInfo:
        """The process."""
        return self.entry.info

    @property
    def key(self) -> tuple[int, float | None]:
        """Pid and start time, which identify the process."""
        return self.info.pid, self.info.created


def process_rows(entries: Sequence[ProcessEntry], labels: Mapping[str, str], runs: KnownRuns) -> list[ProcessRow]:
    """Return a row for each process. `labels`: names of the devices by id."""
    return [
        ProcessRow(
            entry=entry,
            devices=tr(", ").join(labels.get(device, device) for device in entry.devices),
            run=_run_words(entry, runs),
            of_this_run=runs.shown is not None and entry.info.run_id == runs.shown,
            why_not=why_not_end(entry, runs),
        )
        for entry in entries
    ]


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


def _run_words(entry: ProcessEntry, runs: KnownRuns) -> str:
    run_id = entry.info.run_id
    if run_id is None:
        return ""
    if run_id == runs.shown:
        return tr("this run") if entry.leftover is None else tr("this run (leftover)")
    name = runs.names.get(run_id, run_id)
    return name if entry.leftover is None else tr("{name} (leftover)", name=name)


def leftovers_sentence(found: Sequence[OrphanedProcess], names: Mapping[str, str]) -> str:
    """Return `2 processes of the ended run X are still running: ...`; "" for none. `names`: of runs by id."""
    if not found:
        return ""
    runs = list(dict.fromkeys(each.run_id for each in found))
    names_of = [tr("{name} (pid {pid})", name=each.name, pid=each.process.pid) for each in found]
    processes = join_names(first_names(names_of, MAX_NAMES))
    if len(runs) == 1:
        return tr_plural(
            "{count} process of the ended run {name} is still running: {processes}. It may use memory of a device.",
            "{count} processes of the ended run {name} are still running: {processes}. "
            "They may use memory of a device.",
            len(found),
            name=names.get(runs[0], runs[0]),
            processes=processes,
        )
    return tr(OF_SEVERAL_RUNS, count=len(found), runs=len(runs), processes=processes)


def leftovers_confirmation(found: Sequence[OrphanedProcess]) -> tuple[str, str]:
    """Return the question before ending leftover processes, and a list of them."""
    first, lines = found[0], []
    for each in found:
        command, old = one_line(each.command, SHORT_COMMAND), age(each.age_s)
        name, pid = each.name, each.process.pid
        lines.append(tr("pid {pid}  {name}  ({age} old): {command}", pid=pid, name=name, age=old, command=command))
    whys = list(dict.fromkeys(each.why for each in found))
    reasons = first_names(whys, MAX_REASONS, tr_noop("{count} more runs have ended too."))
    if len(found) > 1:
        question = tr("End the leftover processes?")
        how = tr("They are asked to end (SIGTERM) and killed some seconds later (SIGKILL).")
    else:
        question = tr("End {name} (pid {pid})?", name=first.name, pid=first.process.pid)
        how = tr("It is asked to end (SIGTERM) and killed some seconds later (SIGKILL).")
    return question, "\n".join([*first_names(lines, MAX_LINES), "", *reasons, how])


NONE_CHOSEN = tr_noop("Select a process first")
NARROW_PX, DEVICE_PX, NARROW_DEVICE_PX = 640, 104, 66
"""Below `NARROW_PX` the column of runs is hidden and the device column has room for one name."""


class ProcessesTab(QFrame):
    """The table, and below it a note and the button."""

    end_asked = Signal(object)
    """A `ProcessRow` that may be ended; the receiver asks the user first."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "processesTab", tr("Processes on the devices"))
        title, columns = tr("Processes on the devices"), _columns()
        self.table = RowsTable("processTable", title, columns, key=lambda row: row.key, sorted_by="memory_bytes")
        self.table.offer("processTableMenu", "processes")
        spoken = tr("End the selected process (asks first)")
        self.end_button = compact_button("endProcess", tr("End…"), role="danger", spoken=spoken)
        self.words = ElidedLabel(name="processWords", role="small")
        self.empty = named(empty_label(), "noProcesses")
        self.empty.hide()
        self._problem = ""
        self.end_button.clicked.connect(self._request_end)
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
        self.table.choose(next((row.key for row in self.table.rows if device in row.entry.devices), None))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Hide the column of runs if there is little room; the tooltip has the run."""
        super().resizeEvent(event)
        run, narrow = self.table.place("run"), event.size().width() < scaled(NARROW_PX)
        if narrow is not self.table.isColumnHidden(run):  # otherwise keep the widths that the user set
            self.table.setColumnHidden(run, narrow)
            width = NARROW_DEVICE_PX if narrow else DEVICE_PX
            self.table.horizontalHeader().resizeSection(self.table.place("devices"), width)

    def _request_end(self) -> None:
        row = self.table.chosen()
        if row is not None and not row.why_not:
            self.end_asked.emit(row)

    def _show_selection(self) -> None:
        row = self.table.chosen()
        why_not = tr(NONE_CHOSEN) if row is None else row.why_not
        self.end_button.setEnabled(not why_not)
        tip = why_not
        if row is not None and not why_not:
            tip = tr("End {name} (pid {pid}); asks first (Delete)", name=row.info.name, pid=row.info.pid)
        self.end_button.setToolTip(verbatim(tip))
        self.words.setText(join_sentences(["" if row is None else row.why_not, self._problem]))


def _columns() -> list[Column[ProcessRow]]:
    columns: tuple[Column[ProcessRow], ...] = (
        Column("pid", lambda row: row.info.pid, "PID", is_number=True, width_px=72),
        Column("user", lambda row: row.info.user, tr("User"), width_px=68),
        Column("name", lambda row: row.info.name, tr("Name"), width_px=76),
        Column("command", lambda row: row.info.command, tr("Command"), lambda row: command_words(row.info),
               width_px=STRETCH),
        Column("age_s", lambda row: None if row.info.age_s is None else round(row.info.age_s, 1), tr("Age"),
               lambda row: age(row.info.age_s), is_number=True, is_descending=True, width_px=56),
        Column("memory_bytes", lambda row: row.info.memory_used_bytes, tr("Memory"),
               lambda row: memory_size(row.info.memory_used_bytes), is_number=True, is_descending=True, width_px=84),
        Column("devices", lambda row: row.entry.devices, tr("Device"), lambda row: row.devices or None,
               sort=lambda row: row.devices or None, width_px=DEVICE_PX),
        Column("run", lambda row: row.info.run_id, tr("Run"), lambda row: row.run, sort=lambda row: row.run or None,
               tone=lambda row: "accent" if row.of_this_run else _tone(row), width_px=116),
    )
    return [
        replace(each, tip=partial(_tip, each), tone=each.tone or _tone, is_bold=lambda row: row.of_this_run)
        for each in columns
    ]


def _tip(column: Column[ProcessRow], row: ProcessRow) -> str:
    return "\n".join(filter(None, dict.fromkeys((column.cell(row), row.run, row.why_not))))


def _tone(row: ProcessRow) -> str:
    return "muted" if row.why_not and not row.of_this_run else "text"
