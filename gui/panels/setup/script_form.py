"""The form for a script of the user's own: what it is started with, where, how, and by which Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFileDialog, QLabel, QPlainTextEdit, QPushButton, QWidget

from core.catalog.strategies import LAUNCH_MODES
from gui.viewmodels.setup.python_rows import python_rows
from gui.viewmodels.setup.script_text import TypedScript, folder_of, typed_of
from gui.viewmodels.setup.strategy_rows import StrategyRow
from gui.widgets.forms.fields import beside, field, form, label, line
from gui.widgets.forms.strategy_box import StrategyBox

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from core.pythons.search import FoundPython
    from core.schema.spec import RunSpec
    from gui.style.theme import Theme

ENVIRONMENT_PX = 48
"""Two lines."""
LABEL_PX = 84
"""Paths need the room."""
FROM_SOURCE = "From the source"
BRIEF = {"one": "one process", "per-device": "per device"}
"""The ways to launch, in few words."""
SCRIPT_TIP = "A Python file, a folder with a __main__.py, or -m package.module"
READS_IT = "What the script's source looks like; it is read, not started"
MAX_CHARACTERS = 32_768
"""No field that was remembered is longer."""


class ScriptForm(QWidget):
    """What is typed stays as it was typed: `typed` hands it over, to be judged elsewhere."""

    changed = Signal()
    named = Signal()
    """Another script is named."""
    near_changed = Signal()
    """Another folder is where to look for the script's Python."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._script = line("scriptPath", "Script", SCRIPT_TIP)
        self._script.setPlaceholderText("choose one, or drop it")
        self._arguments = line("argumentsEdit", "Arguments", "What follows the script's name, quoted as for a shell")
        self._arguments.setPlaceholderText("none")
        self._folder = line("workingDirEdit", "Working folder", "Where the script runs: its relative paths start here")
        self._folder.setPlaceholderText("the script's folder")
        self._environment = QPlainTextEdit()
        self._launch = StrategyBox(theme, "launchBox", "Launch", "How the script is started on several devices")
        self._python = StrategyBox(theme, "pythonBox", "Python", "The Python that runs the script")
        self._expression = line(
            "expressionEdit", "Regular expression", "Named groups are metrics: (?P<step>\\d+) (?P<loss>[\\d.]+)",
        )  # fmt: skip
        self._expression.setPlaceholderText("known ways of printing")
        self._trial = QLabel()
        self._trial.setObjectName("expressionTrial")
        self._trial.setProperty("role", "small")
        self._trial.setWordWrap(True)
        self._trial.setVisible(False)
        self._offered = ""
        self._proposed, self._why = "", ""
        self._chosen_python, self._usual_python = "", ""
        self._entries: tuple[FoundPython, ...] = ()
        self._dress()
        self._lay_out()
        self._show_launches()
        self._show_pythons()
        self._connect()

    @property
    def script(self) -> str:
        """The path, or `-m` and a module, as it was typed."""
        return self._script.text().strip()

    @property
    def expression(self) -> str:
        """The regular expression by which its log is to be read; none for the known ways of printing."""
        return self._expression.text()

    def show_trial(self, text: str) -> None:
        """What the expression finds in a log that there is."""
        if text != self._trial.text():
            self._trial.setText(text)
            self._trial.setVisible(bool(text))

    @property
    def near(self) -> Path | None:
        """The folder near which its Python is looked for; None while no script is named."""
        folder = folder_of(self.script) or self._folder.text().strip()
        return Path(folder) if folder else None

    def typed(self, devices: tuple[str, ...], release: Mapping[str, object], cuda_ids: str) -> TypedScript:
        """All of it, together with what is chosen elsewhere."""
        return TypedScript(
            script=self.script,
            arguments=self._arguments.text(),
            working_dir=self._folder.text().strip(),
            environment=self._environment.toPlainText(),
            launch=self._launch.currentData() or "",
            python=self._chosen_python,
            expression=self.expression,
            devices=devices,
            release=release,
            cuda_ids=cuda_ids,
        )

    def choose(self, script: str) -> None:
        """Choose a script."""
        self._script.setText(script)

    def choose_python(self, path: str) -> None:
        """Choose a Python by its path; no text for the usual one."""
        self._chosen_python = path
        self._show_pythons()
        self.changed.emit()

    def show_proposal(self, proposed: str, why: str) -> None:
        """Which launch the source proposes, and why; no text while that is not known."""
        if (proposed, why) != (self._proposed, self._why):
            self._proposed, self._why = proposed, why
            self._show_launches()

    def show_pythons(self, entries: Sequence[FoundPython]) -> None:
        """These have been found."""
        if tuple(entries) != self._entries and not self._python.view().isVisible():  # nothing moves under the mouse
            self._entries = tuple(entries)
            self._show_pythons()

    def show_usual_python(self, path: str) -> None:
        """This one is taken where none is chosen; no text while that is not known."""
        if path != self._usual_python and not self._python.view().isVisible():
            self._usual_python = path
            self._show_pythons()

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self._launch.set_theme(theme)
        self._python.set_theme(theme)

    def remember(self) -> dict[str, Any]:
        """All of it, for another day."""
        folder = self._folder.text().strip()
        return {
            "script": self.script,
            "arguments": self._arguments.text(),
            "working_dir": None if folder == self._offered else folder,
            "environment": self._environment.toPlainText(),
            "launch": self._launch.currentData() or "",
            "python": self._chosen_python,
            "expression": self._expression.text(),
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Set again what was remembered; what makes no sense is left out."""
        texts = {name: value[:MAX_CHARACTERS] for name, value in kept.items() if isinstance(value, str)}
        self._script.setText(texts.get("script", ""))
        self._arguments.setText(texts.get("arguments", ""))
        self._folder.setText(texts.get("working_dir", self._offered))
        self._environment.setPlainText(texts.get("environment", ""))
        self._expression.setText(texts.get("expression", ""))
        self._launch.show_strategy(texts.get("launch", ""))
        self.choose_python(texts.get("python", ""))

    def fill(self, spec: RunSpec) -> None:
        """Show a run's script as it was started."""
        self.restore(typed_of(spec))

    def _show_launches(self) -> None:
        title = f"From source: {BRIEF.get(self._proposed, self._proposed)}" if self._proposed else FROM_SOURCE
        rows = [StrategyRow(strategy="", title=title, summary=self._why or READS_IT, obstacle="")]
        rows += [
            StrategyRow(strategy=row.name, title=row.title, summary=row.summary, obstacle="") for row in LAUNCH_MODES
        ]
        self._launch.show_rows(rows)

    def _show_pythons(self) -> None:
        self._python.show_rows(python_rows(self._entries, self._chosen_python, self._usual_python))
        self._python.show_strategy(self._chosen_python)

    def _take_script(self) -> None:
        """The folder follows the script, until another is named; what was proposed was for another script."""
        self._script.setToolTip(self.script or SCRIPT_TIP)
        untouched = self._folder.text().strip() in {"", self._offered}
        self._offered = folder_of(self.script)
        if untouched:
            self._folder.setText(self._offered)
        self.show_proposal("", "")
        self.named.emit()
        self._take_folder()

    def _take_folder(self) -> None:
        """Which Python is the usual one there has yet to be found out: not here, since a disk may take long."""
        self.show_usual_python("")
        self.near_changed.emit()
        self.changed.emit()

    def _take_python(self) -> None:
        self._chosen_python = self._python.currentData() or ""
        self.changed.emit()

    def _connect(self) -> None:
        self._script.textChanged.connect(lambda _: self._take_script())
        self._folder.textChanged.connect(lambda _: self._take_folder())
        self._arguments.textChanged.connect(lambda _: self.changed.emit())
        self._environment.textChanged.connect(self.changed)
        self._expression.textChanged.connect(lambda _: self.changed.emit())
        self._launch.chosen.connect(self.changed)
        self._python.chosen.connect(self._take_python)

    def _dress(self) -> None:
        field(self._environment, "environmentEdit", "Environment variables", "NAME=VALUE, one in each line")
        self._environment.setFixedHeight(ENVIRONMENT_PX)
        self._environment.setPlaceholderText("NAME=VALUE")
        self._environment.setTabChangesFocus(True)
        self._environment.setProperty("field", True)
        # What is dropped on them is dropped on the window, which knows a script when it sees one.
        for each in (self._script, self._arguments, self._folder, self._environment, self._expression):
            each.setAcceptDrops(False)
        self._environment.viewport().setAcceptDrops(False)

    def _lay_out(self) -> None:
        rows = form(self)
        open_script = _opener("scriptButton", "Choose a script", "Choose a Python program", self._ask_script)
        open_folder = _opener("workingDirButton", "Choose the working folder", "Choose a folder", self._ask_folder)
        open_python = _opener(
            "openPythonButton", "Choose another Python", "Choose a Python by its file", self._ask_python
        )
        rows.addRow(label("&Script", self._script, LABEL_PX), beside(self._script, open_script))
        rows.addRow(label("&Arguments", self._arguments, LABEL_PX), self._arguments)
        rows.addRow(label("R&uns in", self._folder, LABEL_PX), beside(self._folder, open_folder))
        rows.addRow(label("En&vironment", self._environment, LABEL_PX), self._environment)
        rows.addRow(label("&Launch", self._launch, LABEL_PX), self._launch)
        rows.addRow(label("Pyt&hon", self._python, LABEL_PX), beside(self._python, open_python))
        self.more = QWidget()
        more = form(self.more)
        more.addRow(label("Read log &by", self._expression, LABEL_PX), self._expression)
        more.addRow(self._trial)
        self.setFocusProxy(self._script)

    def _ask_script(self) -> None:
        dialog = QFileDialog(self, "Choose a script", folder_of(self.script), "Python files (*.py);;All files (*)")
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(self._script.setText)
        dialog.open()

    def _ask_python(self) -> None:
        dialog = QFileDialog(self, "Choose a Python", str(self.near or ""), "All files (*)")
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setOption(QFileDialog.Option.DontResolveSymlinks)  # an environment's Python is a link to another's
        dialog.fileSelected.connect(self.choose_python)
        dialog.open()

    def _ask_folder(self) -> None:
        dialog = QFileDialog(self, "Choose the working folder", self._folder.text())
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.fileSelected.connect(self._folder.setText)
        dialog.open()


def _opener(name: str, accessible: str, tip: str, pressed: Callable[[], None]) -> QPushButton:
    button = QPushButton("…")
    button.setObjectName(name)
    button.setAccessibleName(accessible)
    button.setToolTip(tip)
    button.setStyleSheet("QPushButton { padding: 4px 8px; }")
    button.clicked.connect(lambda _: pressed())
    return button
