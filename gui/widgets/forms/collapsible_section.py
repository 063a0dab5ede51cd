"""A part of a form that is hidden until the user expands it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QToolButton, QVBoxLayout, QWidget


class CollapsibleSection(QWidget):
    """A small button above the part that it expands."""

    def __init__(self, title: str, part: QWidget) -> None:
        super().__init__()
        self._part = part
        self._button = QToolButton()
        self._button.setObjectName("moreButton")
        self._button.setText(title)
        self._button.setAccessibleName(title)
        self._button.setCheckable(True)
        self._button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._button.setProperty("compact", True)
        self._button.toggled.connect(self.unfold)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(7)
        layout.addWidget(self._button)
        layout.addWidget(part)
        self.unfold(False)

    @property
    def unfolded(self) -> bool:
        """True if the part is visible."""
        return self._button.isChecked()

    def unfold(self, unfolded: bool) -> None:
        """Show or hide the part."""
        self._button.setChecked(unfolded)
        self._button.setArrowType(Qt.ArrowType.DownArrow if unfolded else Qt.ArrowType.RightArrow)
        self._part.setVisible(unfolded)
