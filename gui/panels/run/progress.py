"""The progress of a run: epoch, bar, and speed."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QProgressBar, QSizePolicy, QWidget

from core.language import tr
from gui.style.text_size import scaled
from gui.style.theme import mark
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.layouts import hbox

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
            is_shown = bool(label.text()) and (
                label is self.detail or (not self._is_brief and _least_px(label) <= left_px)
            )
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
            self.detail.setMinimumWidth(
                max(self.detail.minimumWidth(), min(self.detail.sizeHint().width(), scaled(MAX_KEPT_PX)))
            )


def _least_px(label: QWidget) -> int:
    """Return the width that a label takes at least."""
    return max(label.minimumSizeHint().width(), label.minimumWidth())
