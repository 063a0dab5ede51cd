"""The lines of the list of devices: what they say, and which of them are shown."""

from __future__ import annotations

import re
import shutil
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from core.language import join_sentences, tr
from gui.base.formatting import memory_size
from gui.machine.device_rows import CpuSummary, DeviceRow

if TYPE_CHECKING:
    from gui.features.devices.chosen import ChosenDevices
    from gui.machine.host_devices import HostHeading  # which loads `core.hosts`

ROOMY_UP_TO = 4
"""Up to this many GPUs get three lines of text each; more get two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDevices:
    """The devices of a machine, its CPUs and its heading."""

    rows: Sequence[DeviceRow]
    cpus: CpuSummary
    heading: HostHeading | None = None
    """None for this machine."""
    runs_root: Path | None = None
    """The folder of runs, whose free disk space is in the tooltip of the CPU devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the list."""

    host: str
    """The machine; the empty string for this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLine(Line):
    """The heading above the GPUs of one model. They stay in the driver's order: a model may have several headings."""

    name: str
    count: int
    first: str
    """The id of the first GPU below it."""

    @property
    def times(self) -> str:
        """How many GPUs follow; the empty string for a single GPU."""
        return f"{self.count} ×" if self.count > 1 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLine(Line):
    """A device. A click ticks it."""

    row: DeviceRow
    is_ticked: bool
    obstacle: str
    """Why it cannot be ticked; the empty string if it can."""
    is_dense: bool
    """Whether its readings are in one line of text."""

    @property
    def can_be_ticked(self) -> bool:
        """Whether the tick can be changed: a ticked device can always be unticked."""
        return self.is_ticked or not self.obstacle


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuLine(Line):
    """The CPU devices of a machine that has GPUs. A click unfolds them."""

    summary: CpuSummary
    is_folded: bool
    runs_root: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLine(Line):
    """A host. A click folds its devices: then only those that are ticked are shown."""

    heading: HostHeading
    is_folded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteLine(Line):
    """What is wrong with a host, and what to do."""

    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLine(Line):
    """A button that has a host asked again."""

    is_enabled: bool


def key(line: Line) -> Hashable:
    """Return what tells a line from others."""
    match line:
        case DeviceLine():
            return line.row.id
        case ModelLine():
            return ModelLine, line.first
    return type(line), line.host


def looks(line: Line) -> object:
    """Return what is painted and said of a line: if this is as before, it need not be painted again."""
    match line:
        case DeviceLine():
            return line.row.shown, line.is_ticked, line.obstacle, line.is_dense
        case CpuLine():
            return line.summary.devices, line.summary.host_memory, line.is_folded
    return line


def widths(line: Line) -> object:
    """Return what decides how wide the columns are."""
    return line.row.widths if isinstance(line, DeviceLine) else None


def spoken(line: Line) -> str:
    """Return a line for a screen reader."""
    match line:
        case DeviceLine():
            return tr(", ").join(filter(None, (line.row.accessible_text, _new_obstacle(line))))
        case CpuLine(summary=words) | HostLine(heading=words):
            return words.accessible_text
        case ModelLine():
            return f"{line.name} {line.times}"
        case RetryLine():
            return tr("Try to reach {host} again", host=line.host)
        case NoteLine():
            return line.sentence
    return ""


def effect(line: Line) -> str:
    """Return what a click in a line does, if the line itself does not say it."""
    match line:
        case CpuLine():
            return tr("Show the CPU devices") if line.is_folded else tr("Hide the CPU devices that are not ticked")
        case HostLine():
            return tr("Unfold the devices of this host") if line.is_folded else tr("Fold the devices of this host")
        case RetryLine():
            return tr("Ask this host again now")
    return ""


def tip(line: Line) -> str:
    """Return the tooltip of a line. Measures the free disk space for that of the CPU devices."""
    match line:
        case DeviceLine():
            texts: tuple[str, ...] = (line.row.tip, _new_obstacle(line))
        case CpuLine():
            memory = line.summary.host_memory
            devices = tr("CPU: {devices}", devices=line.summary.devices)
            texts = (effect(line), devices, f"{memory[:1].upper()}{memory[1:]}", _free_disk_space(line.runs_root))
        case HostLine():
            texts = (line.heading.tip, line.heading.sentence, effect(line))
        case _:
            texts = (effect(line),)
    return "\n".join(filter(None, texts))


def _new_obstacle(line: DeviceLine) -> str:
    """Return why a device cannot be ticked if its row does not say so."""
    return "" if line.obstacle in line.row.tip else line.obstacle


def free_bytes(folder: Path) -> int | None:
    """Return the free room of the disk that a folder is on, or will be; None if it cannot be read. May block."""
    try:
        return shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.exists())).free
    except OSError:
        return None


def _free_disk_space(folder: Path | None) -> str:
    free = None if folder is None else free_bytes(folder)
    size = tr("unknown") if free is None else memory_size(free)
    return "" if folder is None else tr("Free disk space of {folder}: {size}", folder=folder, size=size)


def lines(machines: Sequence[MachineDevices], chosen: ChosenDevices) -> list[Line]:
    """Return the lines to show."""
    rows = [row for each in machines for row in each.rows]
    is_dense = (sum(not row.is_cpu for row in rows) or len(rows)) > ROOMY_UP_TO
    return [line for each in machines for line in _of_machine(each, chosen, {*chosen.ticked}, is_dense=is_dense)]


def _of_machine(machine: MachineDevices, chosen: ChosenDevices, ticked: set[str], *, is_dense: bool) -> list[Line]:
    found: list[Line] = []
    heading = machine.heading
    host = heading.name if heading is not None else ""
    is_folded = host in chosen.folded_hosts
    if heading is not None:
        found.append(HostLine(host=host, heading=heading, is_folded=is_folded))
        if heading.sentence and not is_folded:
            found.append(NoteLine(host=host, sentence=heading.sentence))
        if heading.failed and not is_folded:
            found.append(RetryLine(host=host, is_enabled=heading.may_retry))

    def add(rows: Sequence[DeviceRow], *, hidden: bool) -> None:
        shown = [row for row in rows if not hidden or row.id in chosen.kept]
        for name, group in groupby(shown, key=lambda row: "" if row.is_cpu else row.name):
            devices = [
                DeviceLine(
                    host=host, row=row, is_ticked=row.id in ticked, obstacle=chosen.obstacles.get(row.id, ""),
                    is_dense=is_dense,
                )
                for row in group
            ]
            if name:
                found.append(ModelLine(host=host, name=name, count=len(devices), first=devices[0].row.id))
            found.extend(devices)

    gpus = [row for row in machine.rows if not row.is_cpu]
    cpus = [row for row in machine.rows if row.is_cpu]
    hides_cpus = bool(gpus) and host not in chosen.unfolded_cpus
    add(gpus, hidden=is_folded)
    if gpus and cpus and not is_folded:
        found.append(CpuLine(host=host, summary=machine.cpus, is_folded=hides_cpus, runs_root=machine.runs_root))
    add(cpus, hidden=is_folded or hides_cpus)
    return found


MAX_CHARACTERS = 240
"""Maximum characters of the banner; the tooltip has the whole text."""
BETWEEN_SENTENCES = re.compile(r"(?<=[.!?]) +(?=[A-Z])|(?<=[。！？])")


def digest(whole: str) -> str:
    """Shorten a text to whole sentences. Of repeated sentences, such as advice, keep the last; count the rest."""
    sentences = BETWEEN_SENTENCES.split(" ".join(whole.split()))
    once = [each for number, each in enumerate(sentences) if each not in sentences[number + 1 :]]
    lengths = [len(" ".join(once[: number + 1])) for number in range(len(once))]
    shown = [each for number, each in enumerate(once) if not number or lengths[number] <= MAX_CHARACTERS]
    left = len(once) - len(shown)
    return join_sentences([*shown, *([tr("And {count} more: see the tooltip.", count=left)] if left else [])])
