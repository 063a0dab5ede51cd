"""Hosts: the list of them, with the dialog in which they are added, tested and removed; and a window onto one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QLineEdit, QPushButton, QWidget

from core.errors import RunError
from core.language import join_sentences, tr, tr_noop, tr_plural
from core.text import first_names, join_names
from gui.base.jobs import Jobs, reason
from gui.base.theme import mark
from gui.machine.device_rows import all_together, free_devices
from gui.widgets.buttons import push_button
from gui.widgets.dialogs import InfoDialog, ask
from gui.widgets.fields import line
from gui.widgets.layouts import hbox
from gui.widgets.plain_text import PlainLabel, verbatim
from gui.widgets.table import RowsTable, text_columns
from gui.window.feature import Feature

if TYPE_CHECKING:
    from core.hosts.host_list import Host
    from core.hosts.inquiry import HostReport, Inquiry
    from core.hosts.mirror import MirrorState
    from gui.machine.host_devices import HostHeading
    from gui.widgets.context_menu import Entry


class HostListController(Feature):
    """Loads what it needs of hosts when the user asks for it: most have none."""

    def set_up(self) -> None:
        panels = self.panels
        self._panel = panels.devices
        self._hosts = self._monitor.hosts
        self._testing = Jobs(self, "host-test")
        self._inquiry: Inquiry | None = None
        """The test that is under way."""
        self._new: Host | None = None
        """The host that is added if the test succeeds."""
        self._dialog: HostsDialog | None = None
        self._problem = ""
        panels.menu.provide(hosts=self.show_dialog)
        self._panel.table.retry_asked.connect(self._hosts.retry)
        self._panel.table.host_entries = self._entries

    @property
    def busy(self) -> bool:
        """Whether the dialog is open."""
        return self._dialog is not None

    def carry(self, former: Self) -> None:  # noqa: ARG002 (of every feature)
        """Ask hosts again that gave a reason, which comes in the language of this window then."""
        self._hosts.retry()

    def take_readings(self) -> None:
        """Bring the dialog up to date, and say what is wrong with the list of hosts."""
        if self._hosts.problem != self._problem:
            self._problem = self._hosts.problem
            self.panels.message.show_message(self._problem, "warn")
        if self._dialog is not None:
            self._dialog.show_lines(self._lines())

    def show_dialog(self, chosen: str = "") -> None:
        """Open the dialog, or raise it. `chosen`: the host to select."""
        if self._dialog is None:
            dialog = self._dialog = HostsDialog(self.panels.window, self._lines(), self._add)
            dialog.test_button.clicked.connect(lambda: self._test(dialog.chosen()))
            dialog.remove_button.clicked.connect(lambda: self.ask_to_remove(dialog.chosen()))
            dialog.finished.connect(lambda _: self._forget_dialog())
            dialog.show()
        self._dialog.activateWindow()
        self._dialog.table.choose(chosen)

    def _forget_dialog(self) -> None:
        self._give_up_test()
        self._dialog = self._new = None

    def _lines(self) -> list[HostLine]:
        if not self._hosts.states:
            return []
        from gui.machine.host_devices import host_heading

        headings = {state.host: host_heading(state, ()) for state in self._hosts.states}
        return [(host.name, host.address, heading.words) for host, heading in headings.items()]

    def _host(self, name: str) -> Host | None:
        return next((state.host for state in self._hosts.states if state.host.name == name), None)

    # -- test and add ------------------------------------------------------------------------------

    def _test(self, name: str) -> None:
        self.show_dialog(name)
        host = self._host(name)
        if host is not None and self._dialog is not None:
            self._new = None
            self._dialog.show_result(tr("Asking {host} …", host=name), busy=True)
            self._ask(host)

    def _ask(self, host: Host) -> None:
        """Ask a host for its clock and its devices, in place of the test that is under way."""
        from core.hosts.inquiry import Inquiry

        self._give_up_test()
        inquiry = self._inquiry = Inquiry([host], devices=True)
        self._testing.start(inquiry.reports, lambda reports: self._take_report(reports[0]), self._show_failure)

    def _show_failure(self, error: Exception) -> None:
        self._inquiry = self._new = None
        if self._dialog is not None:
            self._dialog.show_result(reason(error), "bad")

    def _give_up_test(self) -> None:
        """Cancel the test that is under way; its answer is not shown."""
        if self._inquiry is not None:
            self._inquiry.give_up()
            self._inquiry = None
        self._testing.abandon()

    def _add(self, address: str, name: str, command: str) -> None:
        """Ask a new host, and add it if it answers."""
        from core.hosts import host_list

        assert self._dialog is not None
        carrier = host_list.carrier_of(address)
        problem = carrier.address_problem
        if not problem and carrier.is_cluster:
            self._dialog.show_result(
                tr("{address} may have many nodes. Add them by the command: trainyard hosts add {address}. To add one, "
                   "give its address: {address}/NODE", address=address), "bad",
            )
            return
        try:
            command = carrier.start_with(command or None)
            # A name that is made of such an address would be the one that is complained about.
            host = host_list.Host(
                name=name or ("host" if problem else carrier.default_name), address=address, command=command
            )
            host_list.check_new(host, host_list.load())
        except (ValueError, RunError) as error:
            self._dialog.show_result(str(error), "bad")
            return
        self._new = host
        self._dialog.show_result(tr("Asking {host} …", host=host.name), busy=True)
        self._ask(host)

    def _take_report(self, report: HostReport) -> None:
        from core.hosts import host_list
        from core.hosts.inquiry import state_words

        dialog, new = self._dialog, self._new
        self._inquiry = self._new = None
        if dialog is None:
            return
        words = _answer(report, state_words(report))
        if new is None:
            dialog.show_result(words, "bad" if report.error else "warn" if report.clock_problem else "good")
        elif report.error is not None:
            dialog.show_result(join_sentences([words, tr("The host was not added.")]), "bad")
        else:
            try:
                host_list.add(new)
            except (ValueError, RunError) as error:
                dialog.show_result(str(error), "bad")
                return
            self._hosts.look_soon()
            dialog.clear_form()
            dialog.show_result(words, "warn" if report.clock_problem else "good")

    # -- remove ------------------------------------------------------------------------------------

    def ask_to_remove(self, name: str) -> None:
        """Ask whether to remove a host from the list."""
        chosen = self._panel.chosen
        ticked = [row.label for row in chosen.rows_of(name) if row.id in chosen.ticked]
        words = [tr("Nothing is changed on that machine, and what trains there goes on.")]
        if ticked:
            words.append(tr("Its ticked devices are unticked: {devices}.", devices=join_names(first_names(ticked))))
        ask(
            self._dialog or self.panels.window, lambda: self._remove(name),
            question=tr("Remove {host} from the list?", host=name), words=join_sentences(words), yes=tr("Remove"),
        )

    def _remove(self, name: str) -> None:
        from core.hosts import host_list

        try:
            host = host_list.remove(name)
        except (ValueError, RunError) as error:
            self.panels.message.show_message(str(error), "bad")
            return
        self._hosts.look_soon()
        sentence = tr("{name} has been removed from the list. Nothing was changed on {address}.", name=host.name,
                      address=host.address)
        self.panels.message.show_passing(sentence)

    # -- menu --------------------------------------------------------------------------------------

    def _entries(self, heading: HostHeading) -> Sequence[Entry]:
        name = heading.name
        host, rows = self._host(name), self._panel.chosen.rows_of(name)
        if host is None:
            return ()
        chosen: list[Entry] = []
        if heading.may_retry:
            chosen += [(tr("Try again"), lambda: self._hosts.retry(host.name)), None]
        elif rows:
            chosen += [
                (tr("Tick its free devices"), lambda: self._tick(name, free_devices(rows))),
                (tr("Tick all its devices"), lambda: self._tick(name, all_together(rows))),
                (tr("Untick its devices"), lambda: self._tick(name, ())),
                None,
            ]
        return [
            *chosen,
            (tr("Copy address"), lambda: QGuiApplication.clipboard().setText(host.address)),
            (tr("Test…"), lambda: self._test(host.name)),
            (tr("Remove…"), lambda: self.ask_to_remove(host.name)),
            None,
            (tr("Hosts…"), lambda: self.show_dialog(host.name)),
        ]

    def _tick(self, name: str, ids: Sequence[str]) -> None:
        """Tick these devices of a host and no others there."""
        own = {row.id for row in self._panel.chosen.rows_of(name)}
        self._panel.chosen.tick_only([*(each for each in self._panel.chosen.wanted if each not in own), *ids])


def _answer(report: HostReport, state: str) -> str:
    """Return what a host has answered, with its devices."""
    if report.error is not None:
        return state
    found = report.devices.devices if report.devices else ()
    names = join_names(first_names([device.label for device in found])) or tr("none")
    return tr(
        "{name} is {state}. Its devices: {devices}.", name=report.host.name, state=state.rstrip("."), devices=names
    )


WIDTH = 84
"""Width of the dialog, in letters."""
TABLE_LINES = 8
RESULT_LINES = 4

HostLine = tuple[str, str, str]
"""Name, address and state of a host."""


class HostsDialog(InfoDialog):
    """What came of a test or an addition is shown with `show_result`."""

    def __init__(self, parent: QWidget, lines: Sequence[HostLine], add: Callable[[str, str, str], None]) -> None:
        """`add`: called with address, name and command of a new host; name and command may be empty."""
        super().__init__(parent, name="hostsDialog", heading=tr("Hosts"))
        self._add, self._is_busy = add, False
        intro = tr(
            "The devices of these machines are listed below those of this machine. ssh must reach a machine "
            "without a password, and the same version of Trainyard must be installed there."
        )
        self.content.addWidget(PlainLabel(intro, wraps=True))
        columns = text_columns((tr("Name"), tr("Address"), tr("State")))
        self.table = RowsTable("hostTable", tr("Hosts"), columns, key=lambda line: line[0])
        self.table.horizontalHeader().setStretchLastSection(True)
        self.table.setFixedHeight(self.lines(TABLE_LINES))
        self.content.addWidget(self.table)
        self.test_button = push_button("testHostButton", tr("&Test"))
        self.remove_button = push_button("removeHostButton", tr("&Remove…"))
        self._empty = PlainLabel(tr("No host has been added."), role="small")
        hbox(self.content, self.test_button, self.remove_button, self._empty, 0, gap=12)
        self.address, self.name, self.command = self._add_fields()
        self._result = PlainLabel(name="hostResult", wraps=True)
        self._result.setMinimumHeight(self.lines(RESULT_LINES))
        self.content.addWidget(self._result)
        self.table.chosen_changed.connect(self._enable)
        self.show_lines(lines)
        self.address.setFocus()
        self.resize(self.characters(WIDTH), self.sizeHint().height())

    def show_lines(self, lines: Sequence[HostLine]) -> None:
        """Show these hosts; the selected one stays selected."""
        self.table.show_rows(lines)
        self._empty.setVisible(not lines)
        self._enable()

    def chosen(self) -> str:
        """Return the name of the selected host; the empty string if none is."""
        line = self.table.chosen()
        return line[0] if line is not None else ""

    def show_result(self, text: str, tone: str = "", *, busy: bool = False) -> None:
        """Show what came of a test or an addition. `busy`: it is under way, so that no other can be begun."""
        self._result.setText(text)
        mark(self._result, tone=tone)
        self._is_busy = busy
        self._enable()

    def clear_form(self) -> None:
        """Empty the fields of a new host."""
        for field in (self.address, self.name, self.command):
            field.clear()
        self.address.setFocus()

    def _add_fields(self) -> tuple[QLineEdit, QLineEdit, QLineEdit]:
        """Add the form of a new host, and the button that adds it."""
        forms = tr("USER@HOST, ssh://USER@HOST:PORT, or a name of ~/.ssh/config")
        address = line("hostAddressEdit", tr("Address"), tr("How ssh reaches the machine"), forms)
        first = tr("the first part of the address")
        name = line("hostNameEdit", tr("Name"), tr("The name of the host here"), first)
        starts = tr("What starts Trainyard there, as the shell there reads it")
        command = line("hostCommandEdit", tr("Command"), starts, "trainyard")
        form = self.add_form(tr("Add a host"))
        for label, field in ((tr("Address"), address), (tr("Name"), name), (tr("Command"), command)):
            form.addRow(self.row_label(label, field), field)
            field.textChanged.connect(lambda _: self._enable())
            field.returnPressed.connect(self._ask_to_add)
        add = self._ask_to_add
        self.addition = push_button("addHostButton", tr("Test and &add"), role="primary", does=add)
        hbox(holder := QWidget(), self.addition, 0)
        form.addRow("", holder)
        return address, name, command

    def _ask_to_add(self) -> None:
        if self.addition.isEnabled():
            self._add(*(field.text().strip() for field in (self.address, self.name, self.command)))

    def _enable(self) -> None:
        free, chosen = not self._is_busy, bool(self.chosen())
        self.test_button.setEnabled(free and chosen)
        self.remove_button.setEnabled(free and chosen)
        self.addition.setEnabled(free and bool(self.address.text().strip()))


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
        from gui.machine.host_machine import HostMachine

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
            self._run_list.changed.emit()  # an empty list means something else now
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
    from core.hosts.carrier import Failure
    from core.hosts.connection import clock_problem

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
