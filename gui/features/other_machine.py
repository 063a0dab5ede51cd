"""Show the connection to the host whose runs the window shows, and switch off what needs this machine."""

from __future__ import annotations

import time
from typing import Self

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QPushButton, QWidget

from core.hosts.carrier import Failure
from core.hosts.connection import clock_problem
from core.hosts.mirror import MirrorState
from core.language import join_sentences, tr, tr_noop, tr_plural
from gui.machine.host_machine import HostMachine
from gui.widgets.plain_text import verbatim
from gui.window.feature import Feature

OFF = {
    "openRecipe": tr_noop("Recipes of your own are on {host}, and cannot be chosen from here. Start one there."),
    "openScript": tr_noop("Scripts are on {host}. Type the whole path that the script has there."),
    "copyRecipe": tr_noop("A copy would be on this machine, and {host} trains with its own files."),
    "scaling": tr_noop("Scaling tables are measured on {host} itself: trainyard scale"),
    "hosts": tr_noop("This window shows {host} alone. Hosts are listed in a window on this machine."),
    "leftovers": tr_noop("Processes that runs have left behind are found on {host} itself: trainyard sweep"),
}
"""Why actions of the menu bar are switched off."""
BUTTONS = ("openRecipeButton", "scriptButton", "workingDirButton", "openPythonButton")
"""Buttons that choose files of this machine for a run."""


class HostController(Feature):
    """Nothing of this machine is shown or used as if it were of the host."""

    def set_up(self) -> None:
        panels, machine = self.panels, self._machine
        assert isinstance(machine, HostMachine)
        self._mirror, self._fetch_failures = machine.mirror, machine.fetch_failures
        self._shown: MirrorState | None = None
        self.wants_newest = True
        """Whether no run was shown yet, and runs are still being copied for the first time."""
        self._session.attached.connect(self._want)
        self._run_list.changed.connect(self._offer_newest)
        panels.host_message.details.clicked.connect(self._mirror.retry)
        panels.machine.show_host(self._machine.host)
        self._switch_off()
        self._show(self._mirror.state)
        self.services.connected.set(self._mirror.state.is_connected)

    def prepare(self) -> None:
        """Show what has become of the connection and of what was asked for, before copies of runs are read."""
        for failure in self._fetch_failures():
            self.panels.message.show_message(tr(failure), "bad")
        for name in self._mirror.fetch_reread():
            self._run_list.forget(self._machine.root / name)
            self._session.reload(self._machine.root / name)
        state, before = self._mirror.state, self._shown
        if state is before:
            return
        self._show(state)
        if state.is_complete and (before is None or not before.is_complete):
            self._run_list.show_again()  # an empty list means something else now
        if self.wants_newest and state.is_complete and not state.left:
            self._run_list.poll(now=True)
            self._offer_newest()
            self.wants_newest = False
        if state.is_connected and (before is None or not before.is_connected):
            self._want()
        self.services.connected.set(state.is_connected)

    def carry(self, former: Self) -> None:
        """Show the newest run only if the other window would."""
        self.wants_newest = former.wants_newest

    def _offer_newest(self) -> None:
        newest = self._run_list.newest_live() if self.wants_newest and self._mirror.state.is_complete else None
        if newest is not None and self._session.run is None:
            self.panels.message.attempt(lambda: self._session.attach_to(newest))

    def _want(self) -> None:
        run = self._session.run
        self.wants_newest &= run is None
        self._mirror.want([run.id] if run is not None else [])

    def _switch_off(self) -> None:
        """Switch off what would choose files or processes of this machine."""
        host, menu = self._machine.host, self.panels.menu
        for name, why in OFF.items():
            _switch_off(menu.action(name), tr(why, host=host))
        here = tr("It would choose a file of this machine, and {host} trains with its own. Type the path.", host=host)
        for name in BUTTONS:
            for button in self.panels.setup.findChildren(QPushButton, name):
                _switch_off(button, here)
        _switch_off(self.panels.first_steps.buttons["firstScriptButton"], tr(OFF["openScript"], host=host))
        why = tr("Presets have paths of this machine, and {host} trains with its own files.", host=host)
        _switch_off(self.panels.setup.presets, why)

    def _show(self, state: MirrorState) -> None:
        self._shown = state
        self.panels.header.show_host(*chip(self._machine.host, state))
        text, tone = connection_message(self._machine.host, state)
        self.panels.host_message.show_message(
            text, tone, details=state.next_try is not None, details_text=tr("Try now")
        )


def _switch_off(what: QWidget | QAction, why: str) -> None:
    what.setEnabled(False)
    what.setToolTip(verbatim(why))


def chip(host: str, state: MirrorState) -> tuple[str, str, str]:
    """Return what the header says of the host, its tone, and a sentence on the connection."""
    if state.is_connected:
        sentence = tr("Connected to {host}.", host=host)
        if state.left:
            sentence = join_sentences(
                [sentence, tr_plural("{count} run is being copied.", "{count} runs are being copied.", state.left)]
            )
        return host, "good", sentence
    if state.cut_since is not None and state.was_connected:
        return tr("{host} · cut", host=host), "bad", tr("The connection to {host} is cut.", host=host)
    if state.cut_since is not None:
        return tr("{host} · no connection", host=host), "bad", tr("There is no connection to {host}.", host=host)
    return tr("{host} · connecting", host=host), "warn", tr("Connecting to {host} …", host=host)


def connection_message(host: str, state: MirrorState) -> tuple[str, str]:
    """Return what is to be said about the connection, and its tone; the empty string for nothing."""
    if state.is_connected:
        text = join_sentences([each for each in (state.problem, clock_problem(host, state.clock)) if each])
        return text, "warn"
    if state.cut_since is None:
        return tr("Connecting to {host} …", host=host), "good"
    why = tr(state.why)
    if not state.was_connected:
        return join_sentences([why, tr("Trying again by itself.")]), "bad"
    since = time.strftime("%H:%M:%S", time.localtime(state.cut_since))
    cut = tr(
        "The connection to {host} is cut since {time}, trying again. What is shown is from then; the runs go on.",
        host=host,
        time=since,
    )
    return (cut if state.failure is Failure.CUT else join_sentences([cut, why])), "bad"
