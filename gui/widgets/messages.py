"""Messages that are shown until they are dismissed, their stack, and what a screen reader is told."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath

from PySide6 import QtGui
from PySide6.QtCore import QEvent, QProcess, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QAccessible, QAccessibleEvent, QDesktopServices, QGuiApplication, QKeyEvent, QPaintEvent
from PySide6.QtWidgets import QFrame, QPushButton, QSizePolicy, QWidget

from core.errors import RunError
from core.language import tr
from gui.base.painting import paint_card
from gui.base.theme import current_theme
from gui.widgets.buttons import icon_button
from gui.widgets.layouts import hbox, vbox
from gui.widgets.plain_text import PlainLabel, named, verbatim


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


MAX_CHARACTERS = 400
"""Maximum characters to show; the tooltip has the whole message."""
PASSING_MS = 6000
"""Milliseconds to show a passing message."""


class MessageStrip(QFrame):
    """Shows one message at a time. A dismissed message stays hidden until there is another."""

    opened = Signal()
    """There is a message to show."""
    closed = Signal()
    """There is none any more: it was dismissed, or is over."""
    details_asked = Signal()
    """The button of a message was clicked that does nothing of its own."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setObjectName(name)
        self.is_stacked = False
        """True if a `MessageStack` decides which of several messages can be seen."""
        self.is_open = False
        """True if there is a message that was not dismissed."""
        self.text = ""
        """The whole message; the empty string if there is none."""
        self._tone, self._has_details = "warn", False
        self.lasting = ""
        """A problem that lasts: `clear` shows it again."""
        self._passing = QTimer(self, singleShot=True, interval=PASSING_MS)
        self._passing.timeout.connect(lambda: self.show_message(""))
        self._text = PlainLabel(wraps=True, selectable=True)
        self._text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._does: Callable[[], object] | None = None
        self.details = named(QPushButton(tr("Details")), spoken=tr("Show the details of this message"), compact=True)
        self.details.clicked.connect(self._do)
        self._dismiss = icon_button("cross", "", tr("Dismiss this message"), tr("Dismiss (Esc)"), compact=True)
        self._dismiss.clicked.connect(self.dismiss)
        tip = tr("Show the next message")
        self.next = named(QPushButton(), "nextMessageButton", tip=tip, role="flat", compact=True)
        self.next.hide()
        self.setFocusProxy(self._dismiss)
        parts = ((self._text, 1), self.next, self.details, self._dismiss)
        self._row = hbox(self, *parts, gap=10, margins=(14, 6, 8, 6))
        self.hide()

    def show_message(
        self, text: str, tone: str = "warn", *, details: bool = False, details_text: str = "", is_new: bool = True,
        does: Callable[[], object] | None = None,
    ) -> None:
        """Show a message (`tone`: good, warn, bad); the empty string removes it. An equal message changes nothing.

        `details`: whether it has a button, which reads `details_text`, or Details. A message that is not `is_new`
        updates an earlier one: if that was dismissed, it stays hidden. `does`: what the button does, once.
        """
        self._passing.stop()
        self._does = does
        if does is None and (text, tone, details) == (self.text, self._tone, self._has_details):
            return
        self.text, self._tone, self._has_details = text, tone, details
        short = " ".join(text.split())
        self._text.setText(short if len(short) <= MAX_CHARACTERS else short[:MAX_CHARACTERS] + " …")
        self._text.setToolTip(verbatim(text) if len(short) > MAX_CHARACTERS else "")
        self.setAccessibleName(short)
        self.details.setVisible(details)
        self.details.setText(details_text or tr("Details"))
        self._set_open(bool(text) and (is_new or self.is_open), is_new=is_new)
        self.update()

    def clear(self) -> None:
        """Remove a message that is over; show the problem that lasts, if there is one."""
        self.show_message(self.lasting, "bad")

    def dismiss(self) -> None:
        """Hide the message until there is another."""
        self._set_open(False, is_new=False)

    def _do(self) -> None:
        """Do what the button of this message is for."""
        if self._does is None:
            self.details_asked.emit()
            return
        does = self._does
        self.clear()
        does()

    def show_place(self, number: int, count: int) -> None:
        """Show which of several messages this is."""
        spoken = tr("Message {number} of {count}: show the next message", number=number, count=count)
        self.next.setText(tr("{number} of {count}  ›", number=number, count=count))
        self.next.setAccessibleName(spoken)
        self.next.setVisible(count > 1)

    def show_passing(self, text: str) -> None:
        """Show a success message that disappears by itself."""
        self.show_message(text, "good")
        self._passing.start()

    def copy(self, text: str, said: str) -> None:
        """Put a text on the clipboard, and say so."""
        QGuiApplication.clipboard().setText(text)
        self.show_passing(said)

    def attempt(self, action: Callable[[], object]) -> bool:
        """Do something, and return whether it was possible. Show the sentence of a `RunError` or a `ValueError`."""
        try:
            action()
        except (RunError, ValueError) as error:
            self.show_message(tr(str(error)), "bad")
            return False
        return True

    def add_button(self, button: QPushButton) -> None:
        """Add a button left of the one that dismisses the message."""
        self._row.insertWidget(self._row.count() - 1, button)
        QWidget.setTabOrder(button, self._dismiss)  # same order as on the screen

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 (Qt's name)
        """Paint the background in the tone of the message."""
        paint_card(self, getattr(current_theme(), f"{self._tone}_soft"), getattr(current_theme(), self._tone))

    def _set_open(self, is_open: bool, *, is_new: bool) -> None:
        changed, self.is_open = is_open is not self.is_open, is_open
        if not self.is_stacked:
            self.setVisible(is_open)
        if is_open and (changed or is_new):
            self.opened.emit()
            announce(self, self.accessibleName(), urgent=self._tone == "bad")
        elif changed:
            self.closed.emit()


class MessageStack(QWidget):
    """Shows the newest open strip; each says which of how many it is, and leads to the next. Escape dismisses it.

    It lies below the plots, and only they make room for it.
    """

    def __init__(self, strips: Sequence[MessageStrip]) -> None:
        super().__init__()
        self.setObjectName("messageStack")
        self._strips = list(strips)
        self._open: list[MessageStrip] = []
        """The open strips, the newest first."""
        self._shown: MessageStrip | None = None
        vbox(self, *self._strips)
        for strip in self._strips:
            strip.is_stacked = True
            strip.opened.connect(lambda strip=strip: self._put_first(strip))
            strip.closed.connect(lambda strip=strip: self._take_out(strip))
            strip.next.clicked.connect(self._show_next)
        self.hide()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Dismiss the shown message with Escape."""
        if event.key() == Qt.Key.Key_Escape and self._shown is not None:
            self._shown.dismiss()
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        """Keep presses beside the buttons from reaching the plots below."""
        if event.type() in {QEvent.Type.MouseButtonPress, QEvent.Type.Wheel}:
            event.accept()
            return True
        return super().event(event)

    def _put_first(self, strip: MessageStrip) -> None:
        self._open = [strip, *(each for each in self._open if each is not strip)]
        self._show(strip)

    def _take_out(self, strip: MessageStrip) -> None:
        self._open = [each for each in self._open if each is not strip]
        self._show(self._shown if self._shown in self._open else next(iter(self._open), None))

    def _show_next(self) -> None:
        if self._shown in self._open:
            self._show(self._open[(self._open.index(self._shown) + 1) % len(self._open)])

    def _show(self, strip: MessageStrip | None) -> None:
        had_focus = self._shown is not None and self._shown.isAncestorOf(self.focusWidget() or self)
        self._shown = strip
        for number, each in enumerate(self._open):
            each.show_place(number + 1, len(self._open))
        for each in self._strips:
            each.setVisible(each is strip)
        self.setVisible(strip is not None)
        if strip is not None:
            self.raise_()
            if had_focus:
                strip.setFocus()


def open_path(path: Path, message: MessageStrip) -> None:
    """Open a file or folder in the desktop's program for it; say in `message` if there is none."""
    if not path.exists():
        message.show_message(tr("{path} does not exist yet.", path=path), "warn")
    elif not QDesktopServices.openUrl(QUrl.fromLocalFile(str(path))):
        message.show_message(tr("The desktop has no program that opens {path}.", path=path), "warn")


EDITORS = {
    **dict.fromkeys(("code", "codium", "code-insiders", "cursor"), "--goto {file}:{line}"),
    **dict.fromkeys(("pycharm", "pycharm-community", "charm", "kate", "mousepad"), "--line {line} {file}"),
    **dict.fromkeys(("zed", "zeditor", "subl"), "{file}:{line}"),
    **dict.fromkeys(("gedit", "xed", "pluma", "geany", "gvim"), "+{line} {file}"),
}
"""Editors with windows of their own, and their arguments for a line."""


def open_line(path: Path, line: int, message: MessageStrip) -> None:
    """Open a file at a line in the user's editor, or in another of `EDITORS`; without one, as `open_path`."""
    own = [os.environ.get(name, "").split() for name in ("VISUAL", "EDITOR")]
    for program, *words in (*filter(None, own), *([name] for name in EDITORS)):
        arguments = EDITORS.get(PurePath(program).name, "").split()
        filled = [each.format(file=path, line=line) for each in arguments]
        found = shutil.which(program) if filled and path.exists() else None
        if found and QProcess.startDetached(found, [*words, *filled])[0]:
            return
    open_path(path, message)
