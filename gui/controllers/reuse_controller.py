"""Again: begins anew from what was there: a run, or a setup that was kept by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QGuiApplication

from core.config import presets
from core.config.script_check import ScriptCheckRequest
from core.config.shell_command import shell_line
from core.runs.run import Run
from core.schema.paths import SUPERVISOR_EVENTS
from core.text import join_names
from gui.services.script_checker import ScriptChecker
from gui.widgets.confirm_dialog import ask
from gui.widgets.name_dialog import NameDialog

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QWidget

    from core.schema.spec import RunSpec
    from gui.panels.devices.device_table import DeviceTable
    from gui.panels.runs.run_menu import RunMenu
    from gui.panels.setup.setup_panel import SetupPanel
    from gui.panels.setup.setups_button import SetupsButton
    from gui.services.device_monitor import DeviceMonitor
    from gui.services.run_list import RunListService

    from .run_controller import RunController
    from .start_controller import StartController


class ReuseController(QObject):
    """Does what the menus ask for; what is in the way is said."""

    said = Signal(str, str)
    """A sentence and its tone."""
    done = Signal(str)
    """The same, of what went well: it is soon taken back."""

    def __init__(
        self,
        window: QWidget,
        *,
        board: RunListService,
        monitor: DeviceMonitor,
        starter: StartController,
        helm: RunController,
        setup: SetupPanel,
        devices: DeviceTable,
    ) -> None:
        super().__init__()
        self._window, self._board, self._monitor = window, board, monitor
        self._starter, self._helm, self._setup, self._devices = starter, helm, setup, devices
        self._inquirer = ScriptChecker()
        self._inquirer.setParent(self)
        self._inquirer.answered.connect(self._go_on)
        self._waiting: RunSpec | None = None
        """A script to be started again, once it is known that it can be."""

    def listen(self, menu: RunMenu) -> None:
        """Do what is chosen from the menu of a run."""
        menu.again_asked.connect(lambda run_dir: self._with_spec(run_dir, self._run_again))
        menu.edit_asked.connect(lambda run_dir: self._with_spec(run_dir, self._fill))
        menu.copy_asked.connect(lambda run_dir: self._with_spec(run_dir, lambda spec: self._copy(spec, Path(run_dir))))
        menu.keep_asked.connect(lambda run_dir: self._with_spec(run_dir, self._ask_name))

    def listen_to_setups(self, button: SetupsButton) -> None:
        """Do what is chosen from the list of setups."""
        button.fill_asked.connect(lambda path: self._attempt(lambda: self._fill(presets.read(Path(path)))))
        button.remove_asked.connect(lambda path: self._ask_to_remove(Path(path)))
        button.keep_asked.connect(self._keep_choices)

    def poll(self) -> None:
        """Take in what was found out."""
        self._inquirer.poll()

    def _run_again(self, spec: RunSpec) -> None:
        if spec.script is None:
            self._helm.start_again(spec)
            return
        self._waiting = spec
        self._inquirer.forget()
        self._go_on()

    def _go_on(self) -> None:
        if self._waiting is None:
            return
        answer = self._inquirer.ask(ScriptCheckRequest.of_spec(self._waiting))
        if answer is None:
            return
        spec, self._waiting = self._waiting, None
        if answer.problems:
            self.said.emit(" ".join(answer.problems), "bad")
        else:
            self._helm.start_again(spec)

    def _fill(self, spec: RunSpec) -> None:
        """Choose all that it was started with; devices that are not here any more are told of."""
        self._setup.fill(spec)
        present = {device.id for device in self._monitor.survey.devices}
        self._devices.tick_only([device for device in spec.devices if device in present])
        gone = [device for device in spec.devices if device not in present]
        if gone:
            is_are, it_they = ("is", "it is") if len(gone) == 1 else ("are", "they are")
            self.said.emit(f"{join_names(gone)} {is_are} not in this machine now, so {it_they} not ticked.", "warn")

    def _copy(self, spec: RunSpec, run_dir: Path) -> None:
        run = Run(run_dir, only=(SUPERVISOR_EVENTS,))
        run.catch_up()
        cores = {name: tuple(told.get("cores") or ()) for name, told in run.facts.devices.items()}
        QGuiApplication.clipboard().setText(shell_line(spec, cores))
        self.done.emit(f"Copied: the line that starts {spec.name} the same from a shell.")

    def _keep_choices(self) -> None:
        outlook = self._starter.judge()
        if outlook.spec is None:
            self.said.emit(" ".join(outlook.problems), "bad")
        else:
            self._ask_name(outlook.spec)

    def _ask_name(self, spec: RunSpec) -> None:
        dialog = NameDialog(
            self._window, question="Keep this as a setup called", name=spec.name, yes="Keep", judge=_judge
        )
        dialog.named.connect(lambda name: self._attempt(lambda: self._keep(spec, name)))
        dialog.open()

    def _keep(self, spec: RunSpec, name: str) -> None:
        path = _path_of(name)
        try:
            presets.save(spec, path)
        except OSError as error:
            raise ValueError(f"{path} cannot be written: {error.strerror}. Nothing was kept.") from error
        self.done.emit(f"Kept as {name}: choose it under Setups, or start it with: trainyard run --setup {name!r}")

    def _ask_to_remove(self, path: Path) -> None:
        ask(
            self._window,
            lambda: self._remove(path),
            question=f"Remove the setup {path.stem}?",
            words=f"Its file is deleted: {path}. Runs that were started from it stay as they are.",
            yes="Remove it",
        )

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            self.said.emit(f"{path} cannot be removed: {error.strerror}.", "bad")
        else:
            self.done.emit(f"The setup {path.stem} is removed.")

    def _with_spec(self, run_dir: str, action: Callable[[RunSpec], object]) -> None:
        self._attempt(lambda: action(Run.attach(Path(run_dir)).spec()))

    def _attempt(self, action: Callable[[], object]) -> None:
        try:
            action()
        except ValueError as error:
            self.said.emit(str(error), "bad")


def _path_of(name: str) -> Path:
    """The file of a setup. Raises `ValueError` for what is a path: what is kept here is kept by name."""
    if "/" in name:
        raise ValueError(f"A setup cannot be called {name!r}. Use letters, digits, spaces and . + - _.")
    return presets.path_of(name.removesuffix(presets.SUFFIX), presets.default_root())


def _judge(name: str) -> tuple[str, str]:
    try:
        path = _path_of(name)
    except ValueError as error:
        return str(error), ""
    return "", "There is one of this name: it will be replaced." if path.exists() else ""
