"""A dock that looks like a card: a heading to drag it by, and its content."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QDockWidget, QMainWindow, QWidget

from gui.base.painting import paint_card
from gui.base.theme import current_theme
from gui.widgets.layouts import hbox, vbox
from gui.widgets.plain_text import PlainLabel, named

BELOW_PX = 6
"""Room between the content and the lower border of the card."""


class Dock(QDockWidget):
    """Can be moved, stacked and, by a double click, detached; cannot be closed."""

    def __init__(
        self,
        window: QMainWindow,
        name: str,
        title: str,
        content: QWidget,
        *,
        heading: QWidget | None = None,
        beside: QWidget | None = None,
    ) -> None:
        """`heading`: a widget in place of the title, such as tabs; `beside`: one at the right end of the title."""
        super().__init__(title, window)
        self.setObjectName(name)
        self.setFeatures(
            QDockWidget.DockWidgetFeature.DockWidgetMovable | QDockWidget.DockWidgetFeature.DockWidgetFloatable
        )
        self.setAllowedAreas(Qt.DockWidgetArea.AllDockWidgetAreas)
        self._heading = heading or _title(title)
        self._is_titled = heading is None
        self.setTitleBarWidget(_title_bar(self._heading, beside, inset=self._is_titled))
        # The content comes last: Qt styles all that is in a widget again each time the widget gets another parent.
        inside = QWidget()
        self.setWidget(inside)
        vbox(inside, content, margins=(6, 0, 6, BELOW_PX))

    @property
    def frame_px(self) -> int:
        """Height of everything but the content."""
        return self.titleBarWidget().sizeHint().height() + BELOW_PX

    def show_title(self, *, shown: bool) -> None:
        """Show the title in the heading, or leave it to the tab above the dock."""
        if self._is_titled:
            self._heading.setVisible(shown)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 (Qt's name)
        """Paint the card behind heading and content."""
        paint_card(self, current_theme().panel, current_theme().panel_border)


def _title(text: str) -> PlainLabel:
    return named(PlainLabel(text.upper(), role="title"), line="card")


def _title_bar(heading: QWidget, beside: QWidget | None, *, inset: bool) -> QWidget:
    bar = QWidget()
    right = 14 if beside is None else 6  # flat buttons have room around their text
    margins = (14 if inset else 8, 8 if inset else 2, right, 4 if inset else 0)
    hbox(bar, heading, 0, *(() if beside is None else (beside,)), gap=6, margins=margins)  # 0: drag the dock here
    return bar
