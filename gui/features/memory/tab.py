"""The tab Memory: who uses the memory of the devices, the verdicts after a run, and what helps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from PySide6.QtCore import QModelIndex, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QBrush, QColor, QPainter, QPainterPath, QPixmap, QResizeEvent
from PySide6.QtWidgets import QScrollArea, QSizePolicy, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from core.devices.device import Device, Sample, Survey
from core.language import tr, tr_noop
from core.schema.event_kinds import ProcessInfo
from gui.base.colours import faint
from gui.base.formatting import fine_gigabytes, gigabytes
from gui.base.painting import Index, draw_elided, outline
from gui.base.text_size import scaled
from gui.base.theme import Theme, current_theme, mark
from gui.runs.verdicts import Remedy, VerdictRow
from gui.widgets.buttons import compact_button
from gui.widgets.layouts import grid, scroll_down, vbox
from gui.widgets.messages import MessageStrip
from gui.widgets.plain_text import ColouredLabel, PlainLabel, Span, monospaced, named
from gui.widgets.table import ROW, ROW_PX, STRETCH, Column, RowsTable, empty_label

HEADING = tr_noop("What you can try, gentlest first. Trainyard never does these for you.")

BESIDE_PX = 3
"""Room above a line of text beside a button, which is higher."""


class RemedyList(QWidget):
    """Hidden while there is nothing to do."""

    copy_asked = Signal(str)
    """This command is to be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("remedyList")
        self._shown: list[Remedy] | None = None
        self._steps = QWidget()
        heading = PlainLabel(tr(HEADING), role="heading", wraps=True)
        vbox(self, heading, self._steps, gap=4, margins=(9, 4, 6, 6))
        self.show_remedies(())

    def show_remedies(self, remedies: Sequence[Remedy]) -> None:
        """Show these steps, which can be tried about memory that was not released."""
        if list(remedies) == self._shown:
            return
        self._shown = list(remedies)
        self.setVisible(bool(remedies))
        self._steps = _replaced(self._steps)
        steps, ask = grid(self._steps), self.copy_asked.emit
        steps.setColumnStretch(0, 1)
        for number, remedy in enumerate(remedies):
            step = PlainLabel(f"{number + 1}.  {remedy.step}", wraps=True)
            command = PlainLabel(remedy.command, wraps=True, selectable=True)
            monospaced(command)
            for text in (step, command):
                text.setContentsMargins(0, BESIDE_PX, 0, 0)
            spoken, copy = tr("Copy the command: {command}", command=remedy.command), partial(ask, remedy.command)
            button = compact_button(f"remedyCopy{number}", tr("Copy"), spoken=spoken, does=copy)
            for column, part in enumerate((step, command, button)):
                steps.addWidget(part, number, column, Qt.AlignmentFlag.AlignTop)


def _replaced(former: QWidget) -> QWidget:
    """Put an empty widget in the place of another one, and return it."""
    fresh, parent = QWidget(), former.parentWidget()
    layout = parent.layout() if parent is not None else None
    assert layout is not None
    layout.replaceWidget(former, fresh)
    former.deleteLater()
    return fresh


COLUMNS = (tr_noop("Device"), tr_noop("Before → peak → after"), tr_noop("Took"), tr_noop("Verdict"))
USAGE, VERDICT = 1, len(COLUMNS) - 1
MIN_PX = 240


class VerdictTable(QWidget):
    """A row of labels and a sentence for each device; hidden while it is empty."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("releaseFindings")
        self._shown: object = None
        self._rows = QWidget()
        self.ended = PlainLabel(name="endedLabel", wraps=True, selectable=True)
        vbox(self, self._rows, self.ended, gap=4, margins=(9, 6, 6, 2))  # aligned with the table below
        self.show_findings((), "")

    def show_findings(self, findings: Sequence[VerdictRow], ended: str, seen: str = "") -> None:
        """Show these verdicts; `ended`: which processes were terminated; `seen`: when, in words."""
        if (list(findings), ended, seen) == self._shown:
            return
        self._shown = (list(findings), ended, seen)
        self.setVisible(bool(findings or ended))
        self.ended.show_text(ended)
        self._rows = _replaced(self._rows)
        self._rows.setVisible(bool(findings))
        rows = grid(self._rows)
        rows.setColumnStretch(1, 0)
        rows.setColumnStretch(VERDICT, 1)
        for column, title in enumerate(COLUMNS):
            text = tr(", ").join([tr(title), *([seen] if column == VERDICT and seen else [])])
            rows.addWidget(PlainLabel(text, role="small", selectable=True), 0, column)
        for line, finding in enumerate(findings):
            device = ColouredLabel()
            device.show_groups([(Span("\u25a0  ", finding.colour), Span(finding.label))])
            texts = (finding.usage, finding.took, finding.verdict)
            labels = [PlainLabel(text, selectable=True) for text in texts]
            mark(labels[-1], tone=finding.tone)
            for column, label in enumerate((device, *labels)):
                rows.addWidget(label, 2 * line + 1, column)
            sentence = PlainLabel(finding.sentence, wraps=True, selectable=True)
            sentence.setMinimumWidth(MIN_PX)
            rows.addWidget(sentence, 2 * line + 2, USAGE, 1, len(COLUMNS) - USAGE)


NO_DEVICES = tr_noop("Waiting for the devices …")


class MemoryTab(QScrollArea):
    """Scrolls as a whole."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "memoryTab", tr("Memory of the devices"))
        scroll_down(self)  # the table has the keys
        self.table = MemoryTable()
        self.findings = VerdictTable()
        self.remedies = RemedyList()
        self.nothing = empty_label()
        self.empty = empty_label(tr(NO_DEVICES))
        self._content = QWidget()
        # The verdicts matter most.
        vbox(self._content, self.findings, self.remedies, self.empty, self.table, self.nothing, 0, gap=2)
        self.setWidget(self._content)
        self.table.selectionModel().currentRowChanged.connect(lambda index, _: self._scroll_to(index))
        self.show_rows([])

    def show_rows(self, rows: Sequence[MemoryBar]) -> None:
        """Show who uses the memory of these devices."""
        self.table.show_rows(rows)
        self.table.setVisible(bool(rows))
        self.empty.setVisible(not rows)

    def show_findings(self, findings: Sequence[VerdictRow], ended: str, nothing: str, seen: str) -> None:
        """Show the memory verdicts of the run.

        `ended`: which processes were terminated; `nothing`: why verdicts are missing; `seen`: when, in words.
        """
        self.findings.show_findings(findings, ended, seen)
        self.nothing.show_text(nothing)

    def scroll_to_remedies(self) -> None:
        """Scroll to what can be tried, once it is laid out."""
        QTimer.singleShot(0, self, lambda: self.verticalScrollBar().setValue(self.remedies.y()))

    def _scroll_to(self, index: QModelIndex) -> None:
        """Scroll to the current row: the table itself never scrolls."""
        if index.isValid():
            middle = self.table.viewport().mapTo(self._content, self.table.visualRect(index).center())
            self.ensureVisible(middle.x(), middle.y(), 0, ROW_PX)


class LeftoversStrip(MessageStrip):
    """A message about processes of former runs, with two buttons."""

    def __init__(self) -> None:
        super().__init__("leftoversStrip")
        show, end = tr("Show these processes"), tr("End these processes (asks first)")
        self.show_button = compact_button("showLeftovers", tr("Show"), show, spoken=show)
        self.end_button = compact_button("endLeftovers", tr("End…"), end, spoken=end)
        self.add_button(self.show_button)
        self.add_button(self.end_button)


PARTS = (tr_noop("This run"), tr_noop("Other runs"), tr_noop("Others"), tr_noop("Unclaimed"), tr_noop("Free"))
THIS_RUN, OTHER_RUNS, OTHERS, UNCLAIMED, FREE = range(len(PARTS))
TIPS = (
    tr_noop("Used by the shown run"),
    tr_noop("Used by your other runs"),
    tr_noop("Used by other programs; for a CPU device, by everything else on this machine"),
    tr_noop("In use but not attributed to a process: mostly the driver's own reserve"),
    tr_noop("Not in use"),
)

Bytes = int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBar:
    """One device, ready to be shown."""

    id: str
    label: str
    colour: str
    """`#rrggbb`, the same as in the plots."""
    total_bytes: Bytes
    parts: tuple[Bytes, ...]
    """Bytes of each of `PARTS`; None if unknown."""
    words: str = ""
    """Text in place of the bar; the empty string if there is a bar."""

    @property
    def shares(self) -> tuple[float, ...]:
        """Shares of each of `PARTS`, 0 to 1, with a sum of at most 1.

        Used memory of unknown owner counts as unclaimed, otherwise the bar would show it as free.
        """
        total, left, shares = self.total_bytes or 0, 1.0, []
        unknown = 0 if self.parts[FREE] is None else max(total - sum(part or 0 for part in self.parts), 0)
        for index, part in enumerate(self.parts):
            amount = unknown if index == UNCLAIMED and part is None else part or 0
            share = min(amount / total, left) if total else 0.0
            left -= share
            shares.append(share)
        return tuple(shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryKnowledge:
    """The inputs of the bars apart from the readings."""

    processes: Sequence[ProcessInfo]
    """One entry for each process and device."""
    run_id: str | None
    """The shown run."""
    memory_of_run: Mapping[str, float]
    """By CPU device, the bytes that the active run reports."""
    available_bytes: Bytes
    """Available memory of the machine."""
    stale_age_s: Mapping[str, int]
    other_runs_on: Collection[str] = ()
    """Devices of active runs other than the shown one."""


def memory_bars(survey: Survey, colours: Mapping[str, str], known: MemoryKnowledge) -> list[MemoryBar]:
    """Return a bar for each device, in the order of the survey."""
    samples = {sample.device_id: sample for sample in survey.samples}
    return [_row(device, samples.get(device.id), colours[device.id], known) for device in survey.devices]


def _row(device: Device, sample: Sample | None, colour: str, known: MemoryKnowledge) -> MemoryBar:
    words, total = _why_no_bar(device, sample, known), device.memory_total_bytes
    if words or sample is None:
        parts: tuple[Bytes, ...] = (None,) * len(PARTS)
    elif device.kind == "cpu":
        parts = _cpu_parts(device, known)
    else:
        parts = _gpu_parts(device, sample, known)
    return MemoryBar(id=device.id, label=device.label, colour=colour, total_bytes=total, parts=parts, words=words)


def _why_no_bar(device: Device, sample: Sample | None, known: MemoryKnowledge) -> str:
    """Return the text in place of the bar; the empty string if there is a bar."""
    if sample is None:
        return tr("not read yet")
    unread = device.kind != "cpu" and sample.memory_used_bytes is None
    age_s = known.stale_age_s.get(device.id)
    reasons = (
        (sample.lost, tr("lost: the device no longer answers")),
        (age_s is not None, tr("last reading {seconds} s ago", seconds=age_s)),
        (sample.asleep, tr("asleep: reading it would wake it")),
        (device.shared_memory, tr("shared memory: its users are unknown")),
        (unread, tr("its driver does not report the memory in use")),
        (not device.memory_total_bytes, tr("memory size unknown")),
    )
    return next((words for applies, words in reasons if applies), "")


def _gpu_parts(device: Device, sample: Sample, known: MemoryKnowledge) -> tuple[Bytes, ...]:
    used, total = sample.memory_used_bytes or 0, device.memory_total_bytes or 0
    mine, runs, others = _by_owner(device, known)
    if sample.processes is None:  # the driver lists no processes: the owner of the used memory is unknown
        mine, runs, others = (part or None for part in (mine, runs, others))
    unclaimed = None
    on_it = [each for each in known.processes if each.device_id == device.id]
    if sample.processes is not None and all(each.memory_used_bytes is not None for each in on_it):
        unclaimed = max(used - sum(part or 0 for part in (mine, runs, others)), 0)
    return mine, runs, others, unclaimed, max(total - used, 0)


def _cpu_parts(device: Device, known: MemoryKnowledge) -> tuple[Bytes, ...]:
    """Return the parts of a CPU device, whose memory is that of the whole machine."""
    own, (mine, runs, _) = known.memory_of_run.get(device.id), _by_owner(device, known)
    mine = mine if own is None else int(own)
    if known.available_bytes is None or device.memory_total_bytes is None:
        return mine, runs, None, None, None
    if device.id in known.other_runs_on and not runs:  # only the other runs know how much they use
        return mine, None, None, None, known.available_bytes
    others = max(device.memory_total_bytes - known.available_bytes - (mine or 0) - (runs or 0), 0)
    return mine, runs, others, None, known.available_bytes


def _by_owner(device: Device, known: MemoryKnowledge) -> tuple[Bytes, Bytes, Bytes]:
    """Return what the processes of the shown run use on a device, those of other runs, and others."""
    mine, runs, others = list[ProcessInfo](), list[ProcessInfo](), list[ProcessInfo]()
    for each in known.processes:
        if each.device_id == device.id:
            (others if each.run_id is None else mine if each.run_id == known.run_id else runs).append(each)
    return _sum(mine), _sum(runs), _sum(others)


def _sum(processes: Sequence[ProcessInfo]) -> Bytes:
    """Return the sum of the known sizes: 0 for no processes, None if all sizes are unknown."""
    known = [process.memory_used_bytes for process in processes if process.memory_used_bytes is not None]
    return None if processes and not known else sum(known)


NAMES = ("this_run_bytes", "other_runs_bytes", "others_bytes", "unclaimed_bytes", "free_bytes")
"""The columns of `PARTS` in CSV."""
NARROW_PX = 560
"""Below `NARROW_PX` the column of unattributed memory is hidden: the bar needs the room."""
BAR_PX, ROUND_PX, SWATCH_PX, GAP_PX, SIDE_PX = 10, 3, 9, 1, 6
PALE = 0.45
"""Share of the device's colour in the colour of other runs on it."""


class MemoryTable(RowsTable[MemoryBar]):
    """As high as its rows. A square beside each number serves as the legend."""

    def __init__(self) -> None:
        super().__init__("memoryHolders", tr("Memory use of the devices"), self._make_columns(), key=lambda row: row.id)
        self._delegate = MemoryBarDelegate(self)
        self.setItemDelegateForColumn(self.place("total_bytes"), self._delegate)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.offer("memoryTableMenu", "memory")
        for changed in (self.model().rowsInserted, self.model().rowsRemoved):
            changed.connect(lambda *_: self.updateGeometry())

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of all rows."""
        return QSize(MIN_PX, self.height_of_rows())

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of all rows: the surrounding area scrolls."""
        return self.sizeHint()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Hide a column if there is little room."""
        super().resizeEvent(event)
        self.setColumnHidden(self.place(NAMES[UNCLAIMED]), event.size().width() < scaled(NARROW_PX))

    def _make_columns(self) -> tuple[Column[MemoryBar], ...]:
        return (
            Column("device", lambda row: row.id, None),
            Column("label", lambda row: row.label, tr("Device"), tip=_device_tip),
            Column("total_bytes", lambda row: row.total_bytes, tr("Memory, GB"),
                   lambda row: row.words or fine_gigabytes(row.total_bytes), tip=_spoken, spoken=_spoken,
                   width_px=STRETCH),
            *(self._part(at, name) for at, name in enumerate(NAMES)),
            Column("note", lambda row: row.words or None, None),
        )

    def _part(self, at: int, name: str) -> Column[MemoryBar]:
        return Column(
            name, lambda row: row.parts[at], tr(PARTS[at]), lambda row: fine_gigabytes(row.parts[at]),
            tip=lambda _: tr(TIPS[at]), icon=lambda row: self._swatch(row, at), about=tr(TIPS[at]),
            heading_px=11,
        )

    def _swatch(self, row: MemoryBar, part: int) -> QPixmap | None:
        if row.parts[part] is None:
            return None
        return swatch(row.colour, part, current_theme(), max(self.devicePixelRatioF(), 1.0))


def _device_tip(row: MemoryBar) -> str:
    total = [] if row.total_bytes is None else [tr("{size} GB in total", size=gigabytes(row.total_bytes))]
    return tr(", ").join([row.id, *total])


def _spoken(row: MemoryBar) -> str:
    """Return the bar as text, for its tooltip and for a screen reader."""
    if row.words:
        return f"{row.label}: {row.words}"
    known = ((name, part) for name, part in zip(PARTS, row.parts, strict=True) if part is not None)
    parts = [f"{tr(name)} {fine_gigabytes(part)} GB" for name, part in known]
    return f"{row.label}: {tr(', ').join(parts)}"


class MemoryBarDelegate(QStyledItemDelegate):
    """Paints the bar of a row, or its text if there is no bar."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one row."""
        row: MemoryBar = index.data(ROW)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        inside = QRectF(option.rect).adjusted(SIDE_PX, 0, -SIDE_PX, 0)
        if row.words:
            draw_elided(painter, inside.toRect(), row.words, current_theme().muted)
        else:
            inside.setTop(inside.center().y() - BAR_PX / 2)
            inside.setHeight(BAR_PX)
            self._paint_parts(painter, inside, row)
        painter.restore()

    def _paint_parts(self, painter: QPainter, bar: QRectF, row: MemoryBar) -> None:
        shape = QPainterPath()
        shape.addRoundedRect(bar, ROUND_PX, ROUND_PX)
        painter.setClipPath(shape)
        painter.fillRect(bar, QColor(part_brushes(row.colour)[FREE].color()))
        left = bar.left()
        for share, brush in zip(row.shares[:FREE], part_brushes(row.colour), strict=False):
            width = share * bar.width()
            if width > 0:
                width = max(width, 2.0)  # make small parts visible
                painter.fillRect(QRectF(left, bar.top(), max(width - GAP_PX, 1.0), bar.height()), brush)
                left += width
        painter.strokePath(shape, outline(current_theme().field_border))


def part_brushes(colour: str) -> tuple[QBrush, ...]:
    """Return the brush of each of `PARTS` for a device of this colour."""
    brushes = [QBrush()] * len(PARTS)
    theme = current_theme()
    brushes[THIS_RUN] = QBrush(QColor(colour))
    brushes[OTHER_RUNS] = QBrush(QColor(faint(colour, theme, PALE)))
    brushes[OTHERS] = QBrush(QColor(theme.muted))
    brushes[UNCLAIMED] = QBrush(QColor(theme.disabled), Qt.BrushStyle.Dense4Pattern)
    brushes[FREE] = QBrush(QColor(theme.field if theme.is_dark else theme.button_hover))
    return tuple(brushes)


@cache
def swatch(colour: str, part: int, theme: Theme, scale: float) -> QPixmap:
    """Return a square for the legend of one of `PARTS` of a device; `scale`: device pixels per pixel."""
    brush = part_brushes(colour)[part]
    border = theme.field_border if part == FREE else brush.color().name()
    side = round(SWATCH_PX * scale)
    pixmap = QPixmap(side, side)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.scale(scale, scale)
    painter.fillRect(QRectF(0, 0, SWATCH_PX, SWATCH_PX), brush)
    painter.setPen(QColor(border))
    painter.drawRect(QRectF(0.5, 0.5, SWATCH_PX - 1, SWATCH_PX - 1))
    painter.end()
    pixmap.setDevicePixelRatio(scale)
    return pixmap
