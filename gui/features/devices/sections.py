"""The section of a host below the devices of this machine, and its heading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QEnterEvent, QFocusEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QHBoxLayout,
    QSizePolicy,
    QStyle,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from core.hosts.carrier import Failure
from core.hosts.connection import Clock
from core.hosts.inquiry import HostState, Phase
from core.language import join_sentences, tr, tr_plural
from core.text import duration
from gui.base.formatting import percent
from gui.base.icons import paint_mark
from gui.base.painting import draw_elided, paint_row_background
from gui.base.theme import current_theme
from gui.features.devices.cpu_fold import paint_arrow
from gui.features.devices.delegate import GAP_PX, LEFT_PX, RIGHT_PX, RowSizes
from gui.features.devices.table import DeviceTable
from gui.machine.device_rows import CpuSummary, DeviceRow
from gui.widgets.buttons import SteadyButton
from gui.widgets.messages import announce
from gui.widgets.plain_text import PlainLabel, verbatim

LONG_S = 60.0
"""Offset of a clock from which on it is shown as a duration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostHeading:
    """A host as its section shows it."""

    name: str
    mark: str = ""
    """The shape beside its name: `tick`, `ring`, `cross` or `alert`."""
    tone: str = "muted"
    """The colour of its state: `good`, `muted`, `warn` or `bad`."""
    state: str = ""
    """`reachable`, `connecting …`, `not reachable`."""
    clock: str = ""
    """`clock +0.1 s`; the empty string while it is not known."""
    devices: str = ""
    """`8 GPUs · 34 %`, for a section that is folded."""
    sentence: str = ""
    """What is wrong, and what to do."""
    failed: bool = False
    """Whether it could not be reached the last time."""
    may_retry: bool = False
    """Whether the user may have it asked again now."""
    tip: str = ""

    @property
    def words(self) -> str:
        """`reachable · clock +0.1 s`."""
        return " · ".join(part for part in (self.state, self.clock) if part)

    @property
    def accessible_text(self) -> str:
        """The heading as text for a screen reader."""
        parts = (self.name, self.state, self.clock, self.devices, self.sentence)
        return tr(", ").join(part for part in parts if part)


def host_heading(state: HostState, rows: Sequence[DeviceRow]) -> HostHeading:
    """Return the heading of a host with these devices."""
    mark, tone, words = _state(state)
    failed = state.phase is not Phase.REACHABLE and state.error is not None
    notes = (str(state.error) if failed else "", state.clock_problem, tr(state.survey.banner or ""))
    return HostHeading(
        name=state.host.name,
        mark=mark,
        tone=tone,
        state=words,
        clock=_clock(state.clock) if state.phase is Phase.REACHABLE else "",
        devices=_devices(rows) if state.phase is Phase.REACHABLE else "",
        sentence=join_sentences([each for each in notes if each]),
        failed=failed,
        may_retry=state.phase is Phase.NOT_REACHABLE,
        tip=_tip(state),
    )


def _state(state: HostState) -> tuple[str, str, str]:
    """Return shape, tone and words of the state."""
    if state.phase is Phase.CONNECTING:
        return "ring", "muted", tr("connecting …")
    if state.phase is Phase.REACHABLE:
        return ("alert", "warn", tr("reachable")) if state.clock_problem else ("tick", "good", tr("reachable"))
    is_other = state.error is not None and state.error.failure is Failure.OTHER_VERSION
    return "cross", "bad", tr("other version") if is_other else tr("not reachable")


def _clock(clock: Clock | None) -> str:
    if clock is None:
        return ""
    if abs(clock.offset_s) < LONG_S:
        return tr("clock {offset:+.1f} s", offset=clock.offset_s)
    sign = "+" if clock.offset_s > 0 else "−"
    return tr("clock {offset}", offset=f"{sign}{duration(abs(clock.offset_s))}")


def _devices(rows: Sequence[DeviceRow]) -> str:
    """Return how many devices there are, GPUs if there is one, and how busy they are on average."""
    gpus = [row for row in rows if not row.is_cpu]
    count = len(gpus) or len(rows)
    if not count:
        return ""
    busy = [row.utilisation_percent for row in gpus or rows if row.utilisation_percent is not None]
    words = tr_plural("{count} device", "{count} devices", count)
    if gpus:
        words = tr_plural("{count} GPU", "{count} GPUs", count)
    return f"{words} · {percent(sum(busy) / len(busy) if busy else None)}"


def _tip(state: HostState) -> str:
    host, hello, clock = state.host, state.hello, state.clock
    lines = [f"{host.name}: {host.address}", tr("Command: {command}", command=host.command)]
    if hello is not None:
        lines.append(
            tr("Trainyard {version}, Python {python}, user {user} on {host}", version=hello.version,
               python=hello.python, user=hello.user, host=hello.host)
        )  # fmt: skip
        lines.append(tr("Folder of runs there: {folder}", folder=hello.runs))
    if clock is not None:
        lines.append(
            tr("Clock: {offset:+.2f} s; an answer takes {seconds:.2f} s", offset=clock.offset_s,
               seconds=clock.round_trip_s)
        )  # fmt: skip
    return "\n".join(lines)


TONES = {"good": ("good", "muted"), "muted": ("muted", "muted"), "warn": ("warn", "warn"), "bad": ("bad", "bad")}
"""By tone, the colours of the mark and of the words."""
ABOVE_PX = 6
"""Room above the line, which separates it from the machine before."""
MIN_NAME_PX = 48
"""Width that the name keeps at least."""


class HostHeader(QAbstractButton):
    """Checked while the devices are unfolded."""

    focused = Signal()

    def __init__(self, heading: HostHeading) -> None:
        super().__init__()
        self.setObjectName(f"hostHeader-{heading.name}")
        self.setCheckable(True)
        self.setChecked(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._heading = heading
        self.toggled.connect(lambda _: self._describe())
        self._describe()

    @property
    def heading(self) -> HostHeading:
        """What is shown."""
        return self._heading

    def show_heading(self, heading: HostHeading) -> None:
        """Show the state of the host."""
        if heading != self._heading:
            self._heading = heading
            if not self.hasFocus():  # a screen reader would read out each change
                self._describe()
            self.update()

    def _describe(self) -> None:
        does = tr("Fold the devices of this host") if self.isChecked() else tr("Unfold the devices of this host")
        heading = self._heading
        self.setAccessibleName(heading.accessible_text)
        self.setAccessibleDescription(does)
        self.setToolTip(verbatim("\n".join(part for part in (heading.tip, heading.sentence, does) if part)))

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of a line; the width is that of the list."""
        return QSize(240, RowSizes.of(self.font()).heading + 2 + ABOVE_PX)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802 (Qt's name)
        """Give the present state to a screen reader, and have the line scrolled into view."""
        self._describe()
        super().focusInEvent(event)
        self.focused.emit()

    def enterEvent(self, event: QEnterEvent) -> None:  # noqa: N802 (Qt's name)
        """Highlight the line."""
        super().enterEvent(event)
        self._describe()
        self.update()

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        """Remove the highlight."""
        super().leaveEvent(event)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 (Qt's name)
        """Paint an arrow, the name and, at the right, the state behind its mark."""
        painter, sizes, theme = QPainter(self), RowSizes.of(self.font()), current_theme()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        line = self.rect().adjusted(0, ABOVE_PX, 0, 0)
        painter.fillRect(QRect(0, ABOVE_PX // 2, self.width(), 1), QColor(theme.panel_border))
        self._paint_ground(painter, line)
        paint_arrow(
            painter, QPointF(LEFT_PX + sizes.tick / 2, line.center().y() + 1), theme.text, down=self.isChecked()
        )
        inside = line.adjusted(sizes.square, 0, -RIGHT_PX, 0)
        taken = self._paint_state(painter, inside, sizes)
        draw_elided(painter, inside.adjusted(0, 0, -taken, 0), self._heading.name, theme.text, font=sizes.bold)
        painter.end()

    def _paint_ground(self, painter: QPainter, line: QRect) -> None:
        option = QStyleOptionViewItem()
        option.initFrom(self)
        option.rect = line
        if not self.underMouse():
            option.state &= ~QStyle.StateFlag.State_MouseOver
        paint_row_background(painter, option)

    def _paint_state(self, painter: QPainter, inside: QRect, sizes: RowSizes) -> int:
        """Paint the state, as much of it as fits beside the name. Return the width that it takes."""
        heading, theme = self._heading, current_theme()
        side = sizes.small_line - 5
        name = min(sizes.width(heading.name, sizes.bold), inside.width() - MIN_NAME_PX)
        room = inside.width() - max(name, MIN_NAME_PX) - side - 2 * GAP_PX
        texts = (heading.words, heading.state)
        if not self.isChecked():
            folded = " · ".join(part for part in (heading.state, heading.devices) if part)
            texts = (folded, heading.devices or heading.state)
        text = next((each for each in texts if sizes.width(each) <= room), texts[-1])
        width = min(sizes.width(text), room)
        mark, words = (getattr(theme, each) for each in TONES[heading.tone])
        place = QRect(inside.right() - width, inside.top(), width + 1, inside.height())
        draw_elided(painter, place, text, words, font=sizes.small, right=True)
        box = QRectF(place.left() - side - 5, inside.center().y() - side / 2 + 0.5, side, side)
        paint_mark(painter, heading.mark, box, mark)
        return width + side + 5 + GAP_PX


BELOW_PX = 6
"""Room below the text."""


class HostSection(QWidget):
    """One host. While it is folded, only the devices that are ticked are shown."""

    resized = Signal()
    """It needs another height."""
    folded = Signal()
    """The user has folded or unfolded it."""
    retry_asked = Signal(str)
    reached = Signal(QRect)
    """The keys have led to this part of it, which should be seen."""

    def __init__(self, heading: HostHeading) -> None:
        super().__init__()
        self.name = heading.name
        self.setObjectName(f"hostSection-{self.name}")
        self.header = HostHeader(heading)
        self.table = DeviceTable(self.name)
        self._note = PlainLabel()
        self._note.setObjectName(f"hostNote-{self.name}")
        self._note.setWordWrap(True)
        self._note.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._note.setProperty("role", "small")
        self.retry = SteadyButton(tr("Try again"))
        self.retry.setObjectName(f"hostRetry-{self.name}")
        self.retry.setProperty("compact", True)
        self.retry.setAutoDefault(False)
        self.retry.setToolTip(tr("Ask this host again now"))
        self.retry.setAccessibleName(tr("Try to reach {host} again", host=self.name))
        self._text = QWidget()
        self._lay_out()
        self.header.toggled.connect(self._fold)
        self.header.focused.connect(lambda: self.reached.emit(self.header.geometry()))
        self.retry.clicked.connect(lambda: self.retry_asked.emit(self.name))
        self.table.resized.connect(self._take_height)
        self.table.reached.connect(lambda part: self.reached.emit(part.translated(self.table.pos())))
        self._show_note()

    def _lay_out(self) -> None:
        beside = QHBoxLayout()
        beside.addWidget(self.retry)
        beside.addStretch(1)
        text = QVBoxLayout(self._text)
        text.setSpacing(6)
        self._set_margins()
        text.addWidget(self._note)
        text.addLayout(beside)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for part in (self.header, self._text, self.table):
            layout.addWidget(part)

    def _set_margins(self) -> None:
        """Begin the text where the name begins."""
        layout = self._text.layout()
        assert layout is not None
        layout.setContentsMargins(RowSizes.of(self.font()).square, 0, GAP_PX, BELOW_PX)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        """Follow the size of the font."""
        super().changeEvent(event)
        if event.type() in {QEvent.Type.FontChange, QEvent.Type.StyleChange}:
            self._set_margins()

    @property
    def is_folded(self) -> bool:
        """Whether the devices that are not ticked are hidden."""
        return not self.header.isChecked()

    def fold(self, *, folded: bool) -> None:
        """Fold or unfold it."""
        self.header.setChecked(not folded)

    def show_host(self, heading: HostHeading, rows: Sequence[DeviceRow], cpus: CpuSummary) -> None:
        """Show the state of the host and its devices."""
        before = self.header.heading
        self.header.show_heading(heading)
        self.table.show_rows(rows)
        self.table.cpu_fold.show_summary(cpus)
        if (before.sentence, before.failed, before.may_retry) != (heading.sentence, heading.failed, heading.may_retry):
            self._show_note()
        if before.state != heading.state:
            announce(self.header, heading.accessible_text)

    def cuts(self, width: int) -> list[int]:
        """Return the heights at which nothing is cut in a section of this width, from its top."""
        cuts = [self.header.sizeHint().height()]
        if not self._text.isHidden():
            cuts.append(cuts[-1] + self._text.heightForWidth(width))
        if not self.table.isHidden():
            cuts += [cuts[-1] + each for each in self.table.cuts()]
        return cuts

    def _fold(self) -> None:
        self.table.show_only_ticked(only=self.is_folded)
        self._show_note()
        self.folded.emit()

    def _show_note(self) -> None:
        heading = self.header.heading
        self._note.setText(heading.sentence)
        self._note.setToolTip(verbatim(heading.sentence))
        self.retry.setVisible(heading.failed)
        self.retry.setEnabled(heading.may_retry)
        self._text.setHidden(self.is_folded or not heading.sentence)
        self._take_height()

    def _take_height(self) -> None:
        self.table.setVisible(self.table.has_shown_rows)
        self.table.setFixedHeight(self.table.sizeHint().height())
        self.resized.emit()
