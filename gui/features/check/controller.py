"""Offer the check of this machine once, and do the checks on a thread."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Self

from core.language import tr, tr_noop
from core.launchers import p2p
from gui.base.jobs import Jobs, keep_as_it_is, sentence
from gui.base.settings_file import SettingsFile
from gui.window.feature import Feature

if TYPE_CHECKING:
    from core.check.check import Level
    from gui.features.check.dialog import CheckDialog, Checks

OFFER = tr_noop("This machine has an NVIDIA driver. Help, “Check this machine…” looks whether all of it works.")


class CheckController(Feature):
    """Does the checks on a thread. A dialog that is closed ends them."""

    def set_up(self) -> None:
        self._jobs = Jobs(self, "machine-check", guards=True)
        self._dialog: CheckDialog | None = None
        self._may_offer = self._machine.is_here
        if self._machine.is_here:  # trainyard check does it on another machine
            self.panels.menu.provide(checkMachine=self.show_dialog)

    def take_readings(self) -> None:
        """Offer the check once where there is a driver."""
        if self._may_offer and any(each.kind == "nvidia" for each in self.services.device_monitor.survey.devices):
            self._may_offer = False
            if SettingsFile().first_time("window/check_offered"):
                self._message.show_message(tr(OFFER), "good")

    def show_dialog(self) -> None:
        """Show the dialog, or put it in front."""
        from gui.features.check.dialog import CheckDialog  # with it much that the window does not need

        if self._dialog is None:
            self._dialog = CheckDialog(self.panels.window)
            self._dialog.begun.connect(self.begin)
            self._dialog.copied.connect(self._message.copy)
            self._dialog.cured.connect(self._cure)
            self._dialog.finished.connect(lambda _: self._forget())
        self._dialog.show()
        self._dialog.raise_()

    def begin(self, level: Level) -> None:
        """Do the checks of a level, one after the other; first what is under way of a dialog that was closed ends."""
        from gui.features.check.dialog import Checks

        if self._dialog is None:
            return
        checks = self._dialog.checks = Checks(self.services.device_monitor.survey, self._machine.root, level)
        fail = partial(self._fail, checks)
        for _ in checks.rows:
            self._jobs.add(checks.look, lambda _: self._show(checks, busy=True), fail)
        self._jobs.add(checks.look, lambda _: self._show(checks, busy=False), fail)
        self._show(checks, busy=True)

    def carry(self, former: Self) -> None:
        """Show the dialog of the other window, with what its checks found."""
        if former._dialog is not None:
            self.show_dialog()
            assert self._dialog is not None
            if (checks := former._dialog.checks) is not None:
                self._dialog.checks = checks
                self._show(checks, busy=False)

    def end(self) -> None:
        """Check nothing any more: what was started ends with this process."""
        self._jobs.close()

    def _show(self, checks: Checks, *, busy: bool) -> None:
        if self._dialog is not None and self._dialog.checks is checks:
            self._dialog.show_rows(checks.rows, busy=busy)

    def _cure(self, command: str) -> None:
        """Do what a command does."""
        from gui.features.check.dialog import P2P

        if command != P2P:
            self.panels.menu.action("leftovers").trigger()
        elif self._dialog is not None:
            self._message.attempt(lambda: self._message.show_message(p2p.switch(on=p2p.is_off()), "good"))
            self._dialog.show_remedy()

    def _fail(self, checks: Checks, error: Exception) -> None:
        """Say in their dialog why checks could not be done, and end what they have started."""
        if self._dialog is not None and self._dialog.checks is checks:
            self._jobs.replace(checks.close, keep_as_it_is, keep_as_it_is)
            self._dialog.checks = None  # one more may be under way, whose result is not shown
            self._dialog.fail(sentence(error))

    def _forget(self) -> None:
        dialog, self._dialog = self._dialog, None
        if dialog is not None and dialog.checks is not None and self._jobs.busy:
            self._jobs.replace(dialog.checks.close, keep_as_it_is, keep_as_it_is)
