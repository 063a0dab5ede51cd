"""Parts of the header: state, progress, how much was read, and the buttons of a run."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtDBus import QDBusConnection, QDBusMessage
from PySide6.QtGui import QKeySequence, QPainter, QPaintEvent
from PySide6.QtWidgets import QProgressBar, QSizePolicy, QWidget

from core.language import tr, tr_noop
from core.notifications.channels import bus_address
from core.system.installation import COMMAND
from gui.base.icons import GAP_PX, ButtonIcon, paint_mark
from gui.base.text_size import scaled
from gui.base.theme import mark
from gui.runs.words import Forcing, PauseButtonState, no_run
from gui.widgets.buttons import SteadyButton
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.layouts import Watch, hbox
from gui.widgets.messages import announce
from gui.widgets.plain_text import PlainLabel, named, verbatim


def show_in_task_bar(fraction: float | None) -> None:
    """Show in the task bar which share of a run is done, 0 to 1; None removes it. Without a session bus do nothing.

    KDE Plasma, Ubuntu's dock, Dash to Dock, Unity and Plank show it if Trainyard is in their menu: `trainyard desktop`.
    """
    if address := bus_address():
        message = QDBusMessage.createSignal("/trainyard", "com.canonical.Unity.LauncherEntry", "Update")
        values = {"progress": fraction or 0.0, "progress-visible": fraction is not None}
        message.setArguments([f"application://{COMMAND}.desktop", values])
        QDBusConnection.connectToBus(address, address).send(message)


PARTS = 1000
HEIGHT_PX = 4
WHAT = tr_noop("Reading the run: the curves are coarse until it is read")


class ReadingBar(QProgressBar):
    """Lies over the widget and takes no room. Hidden unless something is being read."""

    def __init__(self, over: QWidget) -> None:
        super().__init__(over.window())
        named(self, "readingBar", tr(WHAT), tr(WHAT))
        self.setRange(0, PARTS)
        self.setTextVisible(False)
        self.setStyleSheet(f"QProgressBar {{ min-height: {HEIGHT_PX}px; max-height: {HEIGHT_PX}px; }}")
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._over = over
        Watch(self, over, {QEvent.Type.Resize, QEvent.Type.Move}, self._place)
        self.hide()

    def show_share(self, share: float) -> None:
        """Show the share that was read, 0 to 1; at 1 the bar disappears."""
        self.setValue(round(PARTS * share))
        if share >= 1.0:
            self.hide()
        elif self.isHidden():
            self._place()
            self.show()
            self.raise_()

    def _place(self) -> None:
        corner = self._over.mapTo(self._over.window(), QPoint(0, 0))
        self.setGeometry(corner.x(), corner.y(), self._over.width(), HEIGHT_PX)


MARK_AT, ROOM = 1.2, 1.7
"""Distance of the mark from the left, and the width that it takes from the text, in widths of the mark."""


class StatePill(PlainLabel):
    """A label with a mark whose shape tells the state to those who cannot tell its colour."""

    def __init__(self) -> None:
        self._mark = ""
        super().__init__()
        self.setProperty("role", "pill")

    def show_state(self, text: str, shape: str, tone: str) -> None:
        """Show a state. `shape`: a mark of `gui.base.icons`, or the empty string; `tone`: a colour of the theme."""
        if text != self.text():
            self.setText(text)
            self.setAccessibleName(tr("State of the run: {text}", text=text))
            announce(self, self.accessibleName())
        if shape != self._mark or tone != self.property("tone"):
            self._mark = shape
            self._set_indent()
            mark(self, tone=tone)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        """Follow the size of the text."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._set_indent()

    def _set_indent(self) -> None:
        self.setIndent(round(ROOM * self._side) if self._mark else 0)

    @property
    def _side(self) -> int:
        return round(1.3 * self.fontMetrics().capHeight())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 (Qt's name)
        """Paint the label and its mark."""
        super().paintEvent(event)
        if self._mark:
            side = self._side
            left, top = MARK_AT * side, (self.height() - side) / 2
            painter = QPainter(self)
            colour = self.palette().color(self.foregroundRole()).name()
            paint_mark(painter, self._mark, QRectF(left, top, side, side), colour)
            painter.end()


BAR_PARTS = 1000
MAX_KEPT_PX = 190
MIN_EPOCH_PX, MIN_DETAIL_PX = 104, 84
SPACING_PX = 10
MAX_PX = 2**24 - 1
"""Largest width of a widget."""
BAR_STRETCH = 1000
"""Stretch of the bar; the space left of it has 1, so the bar grows first."""


class ProgressLine(QWidget):
    """Hides each of its three parts while it is empty."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = ElidedLabel(min_px=MIN_EPOCH_PX)
        self.bar = QProgressBar()
        self.bar.setRange(0, BAR_PARTS)
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(tr("Progress of the run"))
        self.bar.setMinimumWidth(50)
        self.bar.setMaximumWidth(170)
        self.bar.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)  # takes the rest of the space
        self.detail = ElidedLabel(min_px=MIN_DETAIL_PX, name="detailLabel", role="muted")
        self._is_brief = False
        self._room_px = MAX_PX
        self._has_fraction = False
        self.detail.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        hbox(self, 0, self.epoch, (self.bar, BAR_STRETCH), self.detail, gap=SPACING_PX)
        self.show_progress("", None, "")

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the width of the texts and of the smallest bar: a larger bar takes only what is left."""
        widths = [max(part.sizeHint().width(), part.minimumWidth()) for part in self._shown(self.epoch, self.detail)]
        widths += [part.minimumWidth() for part in self._shown(self.bar)]
        return QSize(sum(widths) + SPACING_PX * max(0, len(widths) - 1), super().sizeHint().height())

    def _shown(self, *parts: QWidget) -> list[QWidget]:
        return [part for part in parts if part.isVisibleTo(self)]

    def show_progress(
        self, epoch: str, fraction: float | None, detail: str, *, urgent: bool = False, steady: bool = True
    ) -> None:
        """Show progress; `fraction`: 0 to 1, None if unknown. `urgent`: highlight the detail.

        `steady`: the detail changes often, so it keeps its largest width.
        """
        self.epoch.setText(epoch)
        self._has_fraction = fraction is not None
        self.bar.setValue(round(BAR_PARTS * (fraction or 0.0)))
        if urgent is not (self.detail.property("tone") == "warn"):
            mark(self.detail, tone="warn" if urgent else "")
        self._show_detail(detail, steady=steady)
        self._show_parts()

    def show_brief(self, *, brief: bool) -> None:
        """Leave out epoch and bar, which say little of a run that is over, to leave room for what came of it."""
        if brief is not self._is_brief:
            self._is_brief = brief
            self._show_parts()

    def show_within(self, room_px: int) -> None:
        """Leave out what there is no room for: the bar, or the epoch where only the bar has room, or both."""
        if room_px != self._room_px:
            self._room_px = room_px
            self._show_parts()

    def _show_parts(self) -> None:
        left_px = self._room_px
        for label in (self.detail, self.epoch):
            fits = label is self.detail or (not self._is_brief and _least_px(label) <= left_px)
            is_shown = bool(label.text()) and fits
            label.setVisible(is_shown)
            left_px -= _least_px(label) + SPACING_PX if is_shown else 0
        has_room = self.bar.minimumWidth() <= left_px
        self.bar.setVisible(self._has_fraction and not self._is_brief and has_room)

    def _show_detail(self, detail: str, *, steady: bool) -> None:
        """Set the detail; a steady one keeps its largest width, so that its neighbours do not move."""
        keep_width = bool(detail) and steady
        if not keep_width and self.detail.minimumWidth():
            self.detail.setMinimumWidth(0)
            self.detail.clear()  # otherwise the label keeps its cached width
        self.detail.setText(detail)
        if keep_width:
            wanted = min(self.detail.sizeHint().width(), scaled(MAX_KEPT_PX))
            self.detail.setMinimumWidth(max(self.detail.minimumWidth(), wanted))


def _least_px(label: QWidget) -> int:
    """Return the width that a label takes at least."""
    return max(label.minimumSizeHint().width(), label.minimumWidth())


START_KEYS, PAUSE_KEYS, STOP_KEYS, SAVE_KEYS = "Ctrl+Return", "Ctrl+P", "Ctrl+.", "Ctrl+S"
LONGEST_TEXTS = (tr_noop("Pausing…"), tr_noop("Start over"), tr_noop("Start now"))
"""Longest texts of the pause button."""
SAVE_ICON_PX = 15
CANNOT_SAVE = tr_noop("There is no active run to save")
FORCE = {
    Forcing.WORKERS: (tr_noop("Force"), tr_noop("Kill the processes of this run, once they were examined")),
    Forcing.WAITING: (
        tr_noop("Skip the check"),
        tr_noop("Stop waiting for the memory of the devices: training has ended"),
    ),
}
"""Text and purpose of the stop button while it forces something."""
STOP = (tr_noop("Stop"), tr_noop("Stop this run (graceful first, then forced)"))
UNQUEUE = (tr_noop("Remove from queue"), tr_noop("End it without having started it"))
"""Those of the button for a run that waits in the queue."""


class RunButtons(QWidget):
    """Emits what the user requests; the caller enables the buttons."""

    stop_asked = Signal()
    force_asked = Signal()
    pause_asked = Signal()
    resume_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.start = named(SteadyButton(tr("Start")), "startButton", role="primary")
        self.pause = PauseButton()
        self.stop = named(SteadyButton(tr("Stop")), "stopButton", role="danger")
        self.save = SaveButton()
        self.start.setShortcut(QKeySequence(START_KEYS))
        self._forces: Forcing | None = None
        self._compact = False
        self._proposes_start = True
        self.stop.clicked.connect(lambda _: (self.stop_asked if self._forces is None else self.force_asked).emit())
        self.pause.clicked.connect(lambda _: (self.resume_asked if self.pause.resumes else self.pause_asked).emit())
        hbox(self, self.start, self.pause, self.stop, self.save, gap=8)
        self._start_icon = ButtonIcon(self.start, "play", "on_accent", gap=GAP_PX)
        ButtonIcon(self.stop, "stop", "bad", gap=GAP_PX)
        self.allow_start("")
        self.show_stop(can_stop=False, can_force=False, stopping=None)
        self.pause.show_state(no_run())

    def show_compact(self, *, compact: bool) -> None:
        """Show the buttons as icons, or with their texts."""
        self._compact = compact
        self.start.show_compact(compact)
        self.pause.show_compact(compact)
        self._show_stop_text()

    def allow_start(self, why_not: str, *, is_proposed: bool = True) -> None:
        """Enable Start, or disable it for a reason. `is_proposed`: whether it is what the user most likely wants."""
        if is_proposed is not self._proposes_start:
            self._proposes_start = is_proposed
            mark(self.start, role="primary" if is_proposed else "")
            self._start_icon.show("play", "on_accent" if is_proposed else "text", gap=GAP_PX)
        self.start.setEnabled(not why_not)
        self.start.setToolTip(verbatim(why_not or tr("Start this training ({keys})", keys=START_KEYS)))

    def show_stop(self, *, can_stop: bool, can_force: bool, stopping: Forcing | None, is_queued: bool = False) -> None:
        """Set what the stop button does; `stopping`: what it forces instead of stopping."""
        self._forces = stopping
        text, tip = map(tr, FORCE[stopping] if stopping else UNQUEUE if is_queued else STOP)
        self.stop.setText(text)
        self._show_stop_text()
        self.stop.setEnabled(can_force if stopping else can_stop)
        self.stop.setShortcut(QKeySequence(STOP_KEYS))  # setText removes the shortcut
        none = tr("No active run is shown; show one to stop it")
        self.stop.setToolTip(verbatim(f"{tip} ({STOP_KEYS})" if stopping or can_stop else none))

    def _show_stop_text(self) -> None:
        """Keep the text while the button forces something: its icon says only that it stops."""
        self.stop.show_compact(self._compact and self._forces is None)


class PauseButton(SteadyButton):
    """Pauses or resumes a run. Its width fits its longest text, so that nothing moves."""

    def __init__(self) -> None:
        super().__init__(tr(LONGEST_TEXTS[0]))
        self.setObjectName("pauseButton")
        self.resumes: bool | None = None
        self._icon = ButtonIcon(self, "pause", "text", gap=GAP_PX)

    def show_state(self, state: PauseButtonState) -> None:
        """Show the text, tooltip and action of the button."""
        if self.text() != state.text:
            self.setText(state.text)
            self.setShortcut(QKeySequence(PAUSE_KEYS))  # setText removes the shortcut
        self.setEnabled(state.enabled)
        self.setToolTip(verbatim(f"{state.tip} ({PAUSE_KEYS})" if state.enabled else state.tip))
        if state.resumes is not self.resumes:
            self.resumes = state.resumes
            self._icon.show("resume" if state.resumes else "pause", "text", gap=GAP_PX)

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return a width for the longest text."""
        hint = super().sizeHint()
        if self._compact:
            return hint
        metrics = self.fontMetrics()
        longest_px = max(metrics.horizontalAdvance(tr(text)) for text in LONGEST_TEXTS)
        extra_px = longest_px - metrics.horizontalAdvance(self.text())
        return QSize(hint.width() + max(extra_px, 0), hint.height())


class SaveButton(SteadyButton):
    """Writes a checkpoint now. An icon only: checkpoints are also written without it."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "saveButton", tr("Save now"), role="flat")
        self.setStyleSheet("QPushButton { padding: 5px 6px; }")
        self.setShortcut(QKeySequence(SAVE_KEYS))
        ButtonIcon(self, "save", side=SAVE_ICON_PX)
        self.show_save(can_save=False, saving=False, saved="")

    def show_save(self, *, can_save: bool, saving: bool, saved: str, refusal: str = "") -> None:
        """Enable or disable the button; `saved`: the last checkpoint in words; `refusal`: why saving is impossible."""
        self.setEnabled(can_save and not saving)
        if refusal:
            what = refusal
        elif saving:
            what = tr("Writing a checkpoint")
        else:
            what = tr("Save now: write a checkpoint and continue ({keys})", keys=SAVE_KEYS)
            what = what if can_save else tr(CANNOT_SAVE)
        self.setToolTip(verbatim(f"{what}\n{saved}" if saved else what))
