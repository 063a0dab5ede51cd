"""Notifications about the ends of runs: their settings and the dialog."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtWidgets import QLineEdit, QSpinBox, QWidget

from core.language import join_sentences, tr
from core.notifications.channels import OCCASIONS
from core.notifications.delivery import Outcome
from core.notifications.settings import CHANNELS, NotificationSettings
from core.text import capital, join_names
from gui.base.theme import mark
from gui.widgets import forms
from gui.widgets.dialogs import InfoDialog
from gui.widgets.forms import Editor
from gui.widgets.plain_text import PlainLabel


def shown_in_fields(settings: NotificationSettings) -> dict[str, Any]:
    """Return the values of the form's fields by the name of their setting. Addresses have spaces between them."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    for name, value in values.items():
        if isinstance(value, tuple) and name != "occasions":
            values[name] = " ".join(value)
    return {**values, "min_duration_s": round(settings.min_duration_s)}


def with_fields(settings: NotificationSettings, entered: Mapping[str, Any]) -> tuple[NotificationSettings, str]:
    """Return settings with each field that is valid, and why others are not: sentences, or the empty string."""
    problems, before = list[str](), shown_in_fields(settings)
    for name, value in entered.items():
        if name == "min_duration_s" and value == before[name]:
            continue  # it may have been set more exactly
        typed: dict[str, Any] = {name: _typed(value, getattr(settings, name))}
        try:
            settings = replace(settings, **typed)
        except ValueError as error:
            problems.append(str(error))
    return settings, join_sentences(problems)


def _typed(value: object, earlier: object) -> object:
    """Return what was entered as a value of the same type as an earlier one."""
    if isinstance(value, str):
        return tuple(value.split()) if isinstance(earlier, tuple) else value.strip()
    return float(value) if isinstance(earlier, float) and isinstance(value, int) else value


def channels_in_use(settings: NotificationSettings) -> str:
    """Return the names of the channels that are set, for a line."""
    return join_names(tr(each.title) for each in CHANNELS if getattr(settings, each.name)) or tr("none")


def trial_result(outcomes: Sequence[Outcome]) -> tuple[str, str]:
    """Return what became of a test message, and its tone."""
    delivered = [tr(each.channel.title) for each in outcomes if not each.why]
    sentences = [f"{tr(each.channel.title)}: {each.why}" for each in outcomes if each.why]
    if delivered:
        sentences.insert(0, tr("The test message was sent: {channels}.", channels=join_names(delivered)))
    elif not outcomes:
        sentences.append(tr("Nothing is chosen above, so nobody would be notified."))
    return "\n".join(sentences), "good" if delivered and len(delivered) == len(outcomes) else "warn"


WIDTH = 68
"""Width of the dialog, in letters."""
RESULT_LINES = 3


class NotificationsDialog(InfoDialog):
    """Emits the settings after each change; a field that is not valid keeps its last value, and the reason is shown."""

    changed = Signal(object)
    test_wanted = Signal(object)
    """The settings to test."""

    def __init__(self, parent: QWidget, settings: NotificationSettings, problem: str) -> None:
        super().__init__(parent, name="notificationsDialog", heading=tr("Notifications about runs"))
        self._settings = settings
        self._ready = False
        self._editors = self._make_editors()
        self._occasions = {name: _occasion_box(name, tr(phrase), self._take) for name, phrase in OCCASIONS.items()}
        self._add_fields()
        self._result = PlainLabel(problem, name="notificationsResult", wraps=True)
        self._result.setMinimumHeight(self.lines(RESULT_LINES))
        self.content.addWidget(self._result)
        self._test_button = self.add_button("testNotificationsButton", tr("Send a test message"), self._test)
        values = shown_in_fields(settings)
        for name, editor in self._editors.items():
            editor.set_value(values[name])
        for name, editor in self._occasions.items():
            editor.set_value(name in values["occasions"])
        self._ready = True
        if problem:
            self.show_result(problem, "warn")
        self.resize(self.characters(WIDTH), self.sizeHint().height())

    def show_result(self, text: str, tone: str) -> None:
        """Show what became of a test, or what is wrong; a test may be made again."""
        self._result.setText(text)
        mark(self._result, tone=tone)
        self._test_button.setEnabled(True)

    def reject(self) -> None:
        """Take what is in the fields, and close."""
        self._take()
        super().reject()

    def _make_editors(self) -> dict[str, Editor]:
        made = {}
        for each in CHANNELS:
            title, what, value = tr(each.title), capital(tr(each.help)), getattr(self._settings, each.name)
            if isinstance(value, bool):
                here = tr("On this desktop")
                made[each.name] = forms.check(f"{each.name}Box", title, what, self._take, text=here)
                continue
            if isinstance(value, tuple):
                what = tr("{what}. Put spaces between several", what=what)
            made[each.name] = forms.text(f"{each.name}Edit", title, what, self._check, empty=each.example)
            edit = made[each.name].widget
            assert isinstance(edit, QLineEdit)
            edit.editingFinished.connect(self._take)
            if each.is_address:
                edit.setEchoMode(QLineEdit.EchoMode.Password)
                edit.installEventFilter(_DotsUnlessFocused(edit))
        title = tr("Shortest run, in seconds")
        tip = tr("The end of a run that took less time is not notified; waiting in a queue counts")
        shortest = made["min_duration_s"] = forms.integer(
            "minDurationBox", title, tip, self._take, minimum=0, arrows=False
        )
        assert isinstance(shortest.widget, QSpinBox)
        shortest.widget.setSuffix(" s")
        return made

    def _add_fields(self) -> None:
        where = self.add_form(tr("Where"))
        where.addRow(self._editors["desktop"].widget)
        for channel in CHANNELS:
            if channel.name != "desktop":
                widget = self._editors[channel.name].widget
                where.addRow(self.row_label(tr(channel.title), widget), widget)
        when = self.add_form(tr("When"))
        when.setVerticalSpacing(2)
        for editor in self._occasions.values():
            when.addRow(editor.widget)
        shortest = self._editors["min_duration_s"].widget
        when.addRow(self.row_label(tr("Shortest run"), shortest), shortest)

    def _entered(self) -> tuple[NotificationSettings, str]:
        """Return the settings with each field that is valid, and what is wrong with the others."""
        values: dict[str, Any] = {name: editor.value() for name, editor in self._editors.items()}
        values["occasions"] = tuple(name for name in OCCASIONS if self._occasions[name].value())
        return with_fields(self._settings, values)

    def _check(self) -> None:
        """Show what is wrong with the fields."""
        if self._ready:
            problem = self._entered()[1]
            self.show_result(problem, "warn" if problem else "")

    def _take(self) -> None:
        """Report the fields that are valid."""
        if not self._ready:
            return
        settings, problem = self._entered()
        if problem:
            self.show_result(problem, "warn")
        if settings != self._settings:
            self._settings = settings
            self.changed.emit(settings)

    def _test(self) -> None:
        self._take()
        if self._entered()[1]:
            return
        self.show_result(tr("The test message is being sent …"), "")
        self._test_button.setEnabled(False)
        self.test_wanted.emit(self._settings)


class _DotsUnlessFocused(QObject):
    """Shows the text of a field only while the field has the focus. Qt's own mode would clear it at the first key."""

    def __init__(self, edit: QLineEdit) -> None:
        super().__init__(edit)
        self._edit = edit

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 (Qt's name)
        """Follow the focus."""
        if event.type() in {QEvent.Type.FocusIn, QEvent.Type.FocusOut}:
            mode = QLineEdit.EchoMode.Normal if event.type() == QEvent.Type.FocusIn else QLineEdit.EchoMode.Password
            self._edit.setEchoMode(mode)
        return super().eventFilter(watched, event)


def _occasion_box(name: str, phrase: str, changed: Callable[[], None]) -> Editor:
    title, tip = capital(phrase), tr("Notify me when {occasion}", occasion=phrase)
    return forms.check(f"{name}OccasionBox", title, tip, changed, text=title)
