"""Announce to a screen reader what has changed although the user did nothing."""

from __future__ import annotations

from PySide6 import QtGui
from PySide6.QtGui import QAccessible, QAccessibleEvent
from PySide6.QtWidgets import QWidget


def announce(widget: QWidget, text: str, *, urgent: bool = False) -> None:
    """Have a text about a widget read out, after what is being read or at once. Without a reader do nothing."""
    if not text or not widget.isVisible() or not QAccessible.isActive():
        return
    kind = getattr(QtGui, "QAccessibleAnnouncementEvent", None)  # Qt 6.8 or newer
    if kind is None:
        QAccessible.updateAccessibility(QAccessibleEvent(widget, QAccessible.Event.Alert))
        return
    event = kind(widget, text)
    politeness = QAccessible.AnnouncementPoliteness
    event.setPoliteness(politeness.Assertive if urgent else politeness.Polite)
    QAccessible.updateAccessibility(event)
