"""The form for a user's script: arguments, folder, environment, launch mode and Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QWidget

from core.catalog.strategies import LAUNCH_MODES
from core.language import tr, tr_noop
from core.pythons.discovery import FoundPython
from core.schema.spec import RunSpec
from gui.base.text_size import scaled
from gui.features.setup.script_search import python_rows
from gui.features.setup.strategy_box import StrategyBox, StrategyRow
from gui.machine.script import TypedScript, folder_of, typed_of
from gui.widgets import forms
from gui.widgets.dialogs import FileDialog, script_files
from gui.widgets.fields import browse_button, field, form, label, line, with_button
from gui.widgets.forms import FieldGroup
from gui.widgets.plain_text import PlainLabel, verbatim

ENVIRONMENT_PX = 48
"""Height of two lines."""
LABEL_PX = 94
"""Width of labels: narrower than usual, to leave room for paths."""
AUTOMATIC = tr_noop("Automatic")
BRIEF = {"one": tr_noop("one process"), "per-device": tr_noop("per device")}
"""Short names of launch modes."""
EXPRESSION_TIP = tr_noop("Regular expression whose named groups are metrics: (?P<step>\\d+) (?P<loss>[\\d.]+)")
RULES_TIP = tr_noop("File of the rules that were taught by pointing at numbers in the log; none: use no rules")
SCRIPT_TIP = tr_noop("A Python file, a folder with a __main__.py, or -m package.module")
ENVIRONMENT_TIP = tr_noop("NAME=VALUE, one in each line; NAME alone is taken from the environment at each start")
HOW_AUTOMATIC = tr_noop("Chosen by reading the source of the script, without running it")
MAX_CHARACTERS = 32_768
"""Maximum characters of a restored field."""


class LogPatternForm(FieldGroup):
    """The expression that reads measurements from the log, and what it finds in an existing one."""

    def __init__(self) -> None:
        super().__init__(tr("Measurements"))
        pattern, usual, changed = tr("Log pattern"), tr("beside the script"), self.changed.emit
        editor = forms.text("expressionEdit", pattern, tr(EXPRESSION_TIP), changed, empty=tr("automatic"))
        rules = forms.text("rulesEdit", tr("Rules"), tr(RULES_TIP), changed, empty=usual)
        self._add(pattern, expression=editor)
        self._add(tr("Rules"), rules=rules)
        self.edit: QLineEdit = editor.widget  # type: ignore[assignment]  # `text` creates one
        self.rules: QLineEdit = rules.widget  # type: ignore[assignment]  # so it does here
        self._trial = PlainLabel(name="expressionTrial", role="small", wraps=True)
        self._trial.setVisible(False)
        self._rows.addRow(self._trial)
        self.set_defaults({"expression": "", "rules": ""})

    def show_trial(self, text: str) -> None:
        """Show what the expression finds in an existing log."""
        self._trial.setText(text)
        self._trial.setVisible(bool(text))


class ScriptForm(QWidget):
    """Keeps the fields as typed; `typed` returns them, to be checked elsewhere."""

    changed = Signal()
    named = Signal()
    """The script has changed."""
    search_folder_changed = Signal()
    """The folder in which to look for the script's Python has changed."""

    def __init__(self) -> None:
        super().__init__()
        quoted = tr("Arguments of the script, quoted as in a shell")
        relative = tr("Folder in which the script runs; its relative paths start here")
        self._script = line("scriptPath", tr("Script"), tr(SCRIPT_TIP), tr("choose or drop a file"))
        self._arguments = line("argumentsEdit", tr("Arguments"), quoted, tr("none"))
        self._folder = line("workingDirEdit", tr("Working folder"), relative, tr("the script's folder"))
        self._environment = QPlainTextEdit()
        self._launch = StrategyBox("launchBox", tr("Launch"), tr("How to start the script on several devices"))
        self._python = StrategyBox("pythonBox", "Python", tr("The Python that runs the script"))
        self.more = LogPatternForm()
        self._expression, self._rules = self.more.edit, self.more.rules
        self._default_folder = ""
        self._suggested = self._reason = self._chosen_python = self._default_python = ""
        self._entries: tuple[FoundPython, ...] = ()
        self._set_up_fields()
        self._lay_out()
        self._show_launches()
        self._show_pythons()
        self._connect()

    @property
    def script(self) -> str:
        """The path, or `-m` and a module, as typed."""
        return self._script.text().strip()

    @property
    def expression(self) -> str:
        """The regular expression for the log; the empty string uses the built-in parsers."""
        return self._expression.text()

    def show_trial(self, text: str) -> None:
        """Show what the expression finds in an existing log."""
        self.more.show_trial(text)

    @property
    def search_folder(self) -> Path | None:
        """The folder near which to look for a Python; None if no script is named."""
        folder = folder_of(self.script) or self._folder.text().strip()
        return Path(folder) if folder else None

    def typed(
        self, devices: tuple[str, ...], stop: Mapping[str, object], release: Mapping[str, object], cuda_ids: str
    ) -> TypedScript:
        """Return the fields together with the choices made elsewhere."""
        return TypedScript(**self._texts(), devices=devices, stop=stop, release=release, cuda_ids=cuda_ids)

    def choose(self, script: str) -> None:
        """Choose a script."""
        self._script.setText(script)

    def choose_python(self, path: str) -> None:
        """Choose a Python by its path; the empty string chooses the default."""
        self._chosen_python = path
        self._show_pythons()
        self.changed.emit()

    def show_suggestion(self, suggested: str, reason: str) -> None:
        """Show the launch mode that the source suggests, and why; empty strings if unknown."""
        if (suggested, reason) != (self._suggested, self._reason):
            self._suggested, self._reason = suggested, reason
            self._show_launches()

    def show_pythons(self, entries: Sequence[FoundPython]) -> None:
        """Offer the Pythons that were found."""
        if tuple(entries) != self._entries and not self._python.view().isVisible():  # no change under the mouse
            self._entries = tuple(entries)
            self._show_pythons()

    def show_default_python(self, path: str) -> None:
        """Show which Python is the default; the empty string if unknown."""
        if path != self._default_python and not self._python.view().isVisible():
            self._default_python = path
            self._show_pythons()

    def remember(self) -> dict[str, Any]:
        """Return the fields, for the settings file."""
        texts = self._texts()
        is_usual = texts["working_dir"] == self._default_folder
        return {**texts, "working_dir": None} if is_usual else {**texts}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Restore what `remember` returned; invalid values are ignored."""
        texts = {name: value[:MAX_CHARACTERS] for name, value in kept.items() if isinstance(value, str)}
        self._script.setText(texts.get("script", ""))
        self._arguments.setText(texts.get("arguments", ""))
        self._folder.setText(texts.get("working_dir", self._default_folder))
        self._environment.setPlainText(texts.get("environment", ""))
        self._expression.setText(texts.get("expression", ""))
        self._rules.setText(texts.get("rules", ""))
        self._launch.show_strategy(texts.get("launch", ""))
        self.choose_python(texts.get("python", ""))

    def _texts(self) -> dict[str, str]:
        """Return the fields of `TypedScript` as typed."""
        return {
            "script": self.script,
            "arguments": self._arguments.text(),
            "working_dir": self._folder.text().strip(),
            "environment": self._environment.toPlainText(),
            "launch": self._launch.currentData() or "",
            "python": self._chosen_python,
            "expression": self.expression,
            "rules": self._rules.text().strip(),
        }

    def fill(self, spec: RunSpec) -> None:
        """Fill in the script of a run."""
        self.restore(typed_of(spec))

    def _show_launches(self) -> None:
        suggested = tr(BRIEF.get(self._suggested, self._suggested))
        title = tr("Automatic: {how}", how=suggested) if self._suggested else tr(AUTOMATIC)
        others = [StrategyRow(row.name, tr(row.title), tr(row.summary)) for row in LAUNCH_MODES]
        self._launch.show_rows([StrategyRow("", title, self._reason or tr(HOW_AUTOMATIC)), *others])

    def _show_pythons(self) -> None:
        self._python.show_rows(python_rows(self._entries, self._chosen_python, self._default_python))
        self._python.show_strategy(self._chosen_python)

    def _on_script_edited(self) -> None:
        """Set the folder to the script's, unless the user chose one, and drop the suggested launch mode."""
        self._script.setToolTip(verbatim(self.script or tr(SCRIPT_TIP)))
        untouched = self._folder.text().strip() in {"", self._default_folder}
        self._default_folder = folder_of(self.script)
        if untouched:
            self._folder.setText(self._default_folder)
        self.show_suggestion("", "")
        self.named.emit()
        self._on_folder_edited()

    def _on_folder_edited(self) -> None:
        """Ask for the default Python of the new folder; the search runs elsewhere because disks may be slow."""
        self.show_default_python("")
        self.search_folder_changed.emit()
        self.changed.emit()

    def _on_python_chosen(self) -> None:
        self._chosen_python = self._python.currentData() or ""
        self.changed.emit()

    def _connect(self) -> None:
        self._script.textChanged.connect(lambda _: self._on_script_edited())
        self._folder.textChanged.connect(lambda _: self._on_folder_edited())
        self._environment.textChanged.connect(self.changed)
        for edit in (self._arguments, self._expression, self._rules):
            edit.textChanged.connect(lambda _: self.changed.emit())
        self._launch.chosen.connect(self.changed)
        self._python.chosen.connect(self._on_python_chosen)

    def _set_up_fields(self) -> None:
        field(self._environment, "environmentEdit", tr("Environment variables"), tr(ENVIRONMENT_TIP))
        self._environment.setFixedHeight(scaled(ENVIRONMENT_PX))
        self._environment.setPlaceholderText("NAME=VALUE")
        self._environment.setTabChangesFocus(True)
        self._environment.setProperty("field", True)
        # Let the window handle drops: it recognises scripts.
        for each in (self._script, self._arguments, self._folder, self._environment, self._expression, self._rules):
            each.setAcceptDrops(False)
        self._environment.viewport().setAcceptDrops(False)

    def _lay_out(self) -> None:
        rows = form(self)
        script, folder, python = tr("Choose a Python script"), tr("Choose a folder"), tr("Choose a Python by its file")
        open_script = browse_button("scriptButton", tr("Choose a script"), script, self._browse_script)
        open_folder = browse_button("workingDirButton", tr("Choose the working folder"), folder, self._browse_folder)
        open_python = browse_button("openPythonButton", tr("Choose another Python"), python, self._browse_python)
        rows.addRow(label(tr("&Script"), self._script, LABEL_PX), with_button(self._script, open_script))
        rows.addRow(label(tr("&Arguments"), self._arguments, LABEL_PX), self._arguments)
        rows.addRow(label(tr("W&orking folder"), self._folder, LABEL_PX), with_button(self._folder, open_folder))
        rows.addRow(label(tr("E&nvironment"), self._environment, LABEL_PX), self._environment)
        rows.addRow(label(tr("&Launch"), self._launch, LABEL_PX), self._launch)
        rows.addRow(label(tr("P&ython"), self._python, LABEL_PX), with_button(self._python, open_python))
        self.setFocusProxy(self._script)

    def _browse_script(self) -> None:
        begin, choose = folder_of(self.script), self._script.setText
        FileDialog(self, tr("Choose a script"), choose, begin=begin, names=script_files()).open()

    def _browse_python(self) -> None:
        dialog = FileDialog(self, tr("Choose a Python"), self.choose_python, begin=str(self.search_folder or ""))
        dialog.setOption(FileDialog.Option.DontResolveSymlinks)  # the Python of an environment is a link
        dialog.open()

    def _browse_folder(self) -> None:
        dialog = FileDialog(self, tr("Choose the working folder"), self._folder.setText, begin=self._folder.text())
        dialog.ask_for_folder()
        dialog.open()
