"""How far the run is: its epoch, a bar, and how fast it goes."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QSizePolicy, QWidget

from gui.style.theme import mark

BAR_PARTS = 1000
MAX_KEPT_PX = 190
BAR_STRETCH = 1000
"""Against 1 for what is left free before it: the bar grows first."""


class ProgressLine(QWidget):
    """Each of its three parts is hidden where there is nothing to say."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = QLabel()
        self.bar = QProgressBar()
        self.bar.setRange(0, BAR_PARTS)
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("Progress of the run")
        self.bar.setMinimumWidth(50)
        self.bar.setMaximumWidth(170)
        self.bar.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)  # it takes what words leave
        self.detail = QLabel()
        self.detail.setObjectName("detailLabel")
        self.detail.setProperty("role", "muted")
        self.detail.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(10)
        layout.addStretch(1)
        for part in (self.epoch, self.bar, self.detail):
            layout.addWidget(part, BAR_STRETCH if part is self.bar else 0)
        self.show_progress("", None, "")

    def show_progress(
        self, epoch: str, fraction: float | None, detail: str, *, urgent: bool = False, steady: bool = True
    ) -> None:
        """`fraction`: from 0 to 1; None when it is not known. `urgent`: the detail is not to be overlooked;
        `steady`: it will change often, and nothing beside it shall move."""
        self.epoch.setText(epoch)
        self.epoch.setVisible(bool(epoch))
        self.bar.setVisible(fraction is not None)
        self.bar.setValue(round(BAR_PARTS * (fraction or 0.0)))
        if urgent is not (self.detail.property("tone") == "warn"):
            mark(self.detail, tone="warn" if urgent else "")
        self._show_detail(detail, steady=steady)
        self.detail.setVisible(bool(detail))

    def _show_detail(self, detail: str, *, steady: bool) -> None:
        """What stands left of a steady detail does not move when it is shorter for a while."""
        keeps = bool(detail) and steady
        if not keeps and self.detail.minimumWidth():
            self.detail.setMinimumWidth(0)
            self.detail.clear()  # else a label that has measured itself with the width it had stays as wide
        self.detail.setText(detail)
        if keeps:
            self.detail.setMinimumWidth(
                max(self.detail.minimumWidth(), min(self.detail.sizeHint().width(), MAX_KEPT_PX))
            )
