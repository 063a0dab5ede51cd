"""The form for a user's script, the Pythons found for it, and a trial of its log pattern."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QWidget

from core.catalog.strategies import LAUNCH_MODES
from core.language import tr, tr_noop
from core.metrics.text.expression import describe_result, try_expression
from core.pythons.discovery import FoundPython, PythonSearch
from core.pythons.python_info import Package, PythonInfo
from gui.base.jobs import Jobs, reason
from gui.base.text_size import scaled
from gui.features.setup.recipe_fields import StrategyBox, StrategyRow
from gui.machine.script import TypedScript, folder_of
from gui.widgets import forms
from gui.widgets.dialogs import FileDialog, script_files
from gui.widgets.fields import browse_button, field, form, label, line, with_button
from gui.widgets.forms import FieldGroup
from gui.widgets.plain_text import PlainLabel, verbatim
from gui.window.feature import Feature

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
        self.trial = PlainLabel(name="expressionTrial", role="small", wraps=True)
        """What the expression finds in an existing log."""
        self.trial.hide()
        self._rows.addRow(self.trial)
        self.set_defaults({"expression": "", "rules": ""})


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

    @property
    def search_folder(self) -> Path | None:
        """The folder near which to look for a Python; None if no script is named."""
        folder = folder_of(self.script) or self._folder.text().strip()
        return Path(folder) if folder else None

    def typed(self, devices: tuple[str, ...], **others: Any) -> TypedScript:  # noqa: ANN401 (fields of `TypedScript`)
        """Return the fields together with the choices made elsewhere."""
        return TypedScript(**{**self._texts(), "devices": devices, **others})

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
        rows.addRow(label(tr("P&ython"), self._python, LABEL_PX), with_button(self._python, open_python))
        rows.addRow(label(tr("&Arguments"), self._arguments, LABEL_PX), self._arguments)
        rows.addRow(label(tr("&Launch"), self._launch, LABEL_PX), self._launch)
        # The rest may be below the fold of a small window.
        rows.addRow(label(tr("W&orking folder"), self._folder, LABEL_PX), with_button(self._folder, open_folder))
        rows.addRow(label(tr("E&nvironment"), self._environment, LABEL_PX), self._environment)
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


ASKED = tr_noop("Reading its version and packages …")
USUAL_PYTHON = tr_noop("The Python of the active environment or next to the script; otherwise Trainyard's own")


def python_rows(entries: Sequence[FoundPython], chosen: str, usual: str) -> list[StrategyRow]:
    """Return all rows, those that can be used first. `chosen`: gets a row even if it is unknown.

    `usual`: the Python that is used if none is chosen; the empty string while it is unknown.
    """
    rows = []
    for each in entries:
        title = _title(each.found.path, each.info, own=each.found.place == "own")
        rows.append(StrategyRow(each.found.path, title, _summary(each), each.problem))
    if chosen and chosen not in {row.strategy for row in rows}:
        rows.append(StrategyRow(chosen, _title(chosen, None), short(chosen)))
    rows.sort(key=lambda row: bool(row.obstacle))
    return [usual_row(entries, usual), *rows]


def usual_row(entries: Sequence[FoundPython], usual: str) -> StrategyRow:
    """Return the row for no choice, with the Python that is then used, once it is known."""
    if not usual:
        return StrategyRow("", tr("Automatic"), tr(USUAL_PYTHON))
    entry = next((each for each in entries if each.found.path == usual), None)
    own = entry is not None and entry.found.place == "own"
    now = tr("Now: {python}", python=_summary(entry) if entry else short(usual))
    title = tr("Automatic: {python}", python=_title(usual, None, own=own))
    return StrategyRow("", title, f"{tr(USUAL_PYTHON)}.\n{now}")


def short(path: str) -> str:
    """Return a path with the home folder as `~`."""
    home = str(Path.home())
    return f"~{path.removeprefix(home)}" if path.startswith(f"{home}/") else path


def _title(path: str, facts: PythonInfo | None, *, own: bool = False) -> str:
    """Return `.venv · Python 3.11.7`; this application's own Python is called Trainyard's."""
    folder = Path(path).parent.parent
    name = tr("Trainyard's") if own else folder.name if folder.name not in {"", "usr", "local"} else short(path)
    return f"{name} · {facts.title}" if facts else name


def _summary(entry: FoundPython) -> str:
    """Return the path, and the frameworks with their builds."""
    if entry.info is None:
        return f"{short(entry.found.path)}\n{tr(ASKED)}"
    found = (("torch", entry.info.torch), ("TensorFlow", entry.info.tensorflow), ("Keras", entry.info.keras))
    has = " · ".join(_package(name, package) for name, package in found if package is not None)
    return f"{short(entry.found.path)} ({entry.found.title})\n{has or tr('no torch, TensorFlow or Keras')}"


def _package(name: str, package: Package) -> str:
    cuda = "" if package.cuda is None else " (CUDA)" if package.cuda else f" {tr('(CPU only)')}"
    return f"{name} {package.version or '?'}{cuda}"


AGAIN_S = 2.0
"""Seconds between two trials: the log grows."""
NO_RUN = tr_noop("Select a run to test the expression on its log.")


class ExpressionTester(QObject):
    """`poll` never blocks."""

    tested = Signal(str)
    """What the expression matched, as a sentence; the empty string if there is nothing to show."""

    def __init__(self) -> None:
        super().__init__()
        self._jobs = Jobs(self, "trial")
        self._tried: tuple[str, Path | None] = ("", None)
        self._wanted: tuple[str, Path | None] = ("", None)
        self._due = 0.0

    def poll(self, expression: str, run_dir: Path | None) -> None:
        """Try what is typed by now. `run_dir`: of the run that is shown."""
        wanted = self._wanted = (expression, run_dir)
        if not expression or run_dir is None:
            self._tried = wanted
            self.tested.emit(tr(NO_RUN) if expression else "")
        elif wanted != self._tried or time.monotonic() >= self._due:
            self._try(expression, run_dir)

    def _try(self, expression: str, run_dir: Path) -> None:
        tried = expression, run_dir
        if self._jobs.start(
            lambda: _tried(expression, run_dir),
            lambda found: self._show(tried, found),
            lambda error: self._show(tried, tr("The expression could not be tested: {reason}.", reason=reason(error))),
        ):
            self._tried, self._due = tried, time.monotonic() + AGAIN_S

    def _show(self, tried: tuple[str, Path], found: str) -> None:
        if tried == self._wanted:  # else something else was typed meanwhile
            self.tested.emit(found)


def _tried(expression: str, run_dir: Path) -> str:
    try:
        return describe_result(try_expression(expression, run_dir))
    except ValueError as error:
        return str(error)


class ScriptSearchController(Feature):
    """Searches while the form of a script is shown. A Python that has answered is not asked again."""

    def set_up(self) -> None:
        self._search: PythonSearch | None = None
        self._near: Path | None = None
        self._entries: list[FoundPython] = []
        self._form = self.panels.setup.script
        self._tester = self.services.adopt(ExpressionTester())
        self._tester.tested.connect(self._form.more.trial.show_text)
        self._asked: list[Path | None] = []
        """Near which folder to search, at the next poll: the first frame does not wait for its processes."""
        if self._machine.is_here:  # the Pythons of another machine are not searched here
            self.panels.setup.search_folder_changed.connect(self._asked.append)

    def _search_near(self, near: Path | None) -> None:
        """Search, beginning near this folder. The same folder, or one that does not exist, changes nothing."""
        if self._search is None:
            self._search = PythonSearch()
        elif near == self._near or (near is not None and not near.is_dir()):
            return
        self._near = near
        self._search.start(near)

    def poll(self) -> None:
        """Begin or continue the search, and try what is typed by now."""
        while self._asked:
            self._search_near(self._asked.pop(0))
        if self._search is not None and not self._search.done:
            entries = self._search.poll()
            if entries != self._entries:
                self._entries = entries
                self._form.show_pythons(entries)
        run = self._session.run
        self._tester.poll(self._form.expression, run.dir if run else None)

    def end(self) -> None:
        """End the search and its processes."""
        if self._search is not None:
            self._search.close()
            self._search = None
