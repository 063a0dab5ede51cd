"""Fill the form from a run or a preset, or for a first run; copy a recipe to change it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal, SignalInstance
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFileDialog, QFrame, QMenu, QPushButton, QToolButton

from core.catalog import recipes
from core.catalog.recipes import RecipeFile
from core.config import presets
from core.config.finding import TICK, Cure
from core.config.presets import Preset, repeat_line, shell_line
from core.devices.device import split_name
from core.language import join_sentences, tr, tr_noop, tr_plural
from core.runs.owners import owner_of_file, owner_of_run
from core.runs.run import Run
from core.schema.paths import SUPERVISOR_EVENTS
from core.schema.spec import RunSpec
from core.series.report import export_bytes
from core.text import join_names
from gui.base.theme import mark
from gui.features.setup.fit import LARGEST
from gui.machine.device_rows import free_devices
from gui.runs.rows import owner_question
from gui.widgets.buttons import compact_button, give_menu_below
from gui.widgets.dialogs import FileDialog, NameDialog, ask, ask_first, python_files
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.layouts import grid
from gui.widgets.messages import open_path
from gui.widgets.plain_text import PlainLabel, menu_text, named, verbatim

if TYPE_CHECKING:
    from gui.features.setup.start import StartController
    from gui.machine.start_check import StartCheck


EXAMPLE = "digits_cnn"
"""The workload for a first run: its data are included and it trains in seconds."""
FIRST_STEPS = {
    "firstTickButton": (tr_noop("Tick the free devices"), tr_noop("Choose where to train; nothing uses them.")),
    "firstExampleButton": (tr_noop("Train {example}"), tr_noop("Train a small example network in seconds.")),
    "firstScriptButton": (tr_noop("Open a script…"), tr_noop("Train a program of your own, unchanged.")),
}
"""By name, the text of a button and what it does. `{example}` stands for `EXAMPLE`."""


class FirstSteps(QFrame):
    """A card with a heading, and the buttons with their sentences. Hidden until there is a heading."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "firstSteps", card=True)
        self.buttons: dict[str, QPushButton] = {}
        self._heading = PlainLabel(name="firstStepsHeading", role="heading")
        self._layout = grid(self, gap=12, line_gap=4)
        self._layout.setContentsMargins(12, 9, 12, 9)
        self._layout.addWidget(self._heading, 0, 0, 1, 2)
        self.sentences: dict[str, ElidedLabel] = {}
        for line, (name, (text, sentence)) in enumerate(FIRST_STEPS.items(), 1):
            button = self.buttons[name] = compact_button(name, tr(text, example=EXAMPLE))
            button.setAccessibleDescription(tr(sentence))
            self._layout.addWidget(button, line, 0)
            self.sentences[name] = ElidedLabel(tr(sentence), role="muted")
            self._layout.addWidget(self.sentences[name], line, 1)
        self.hide()

    def show_heading(self, heading: str) -> None:
        """Show the guidance below a heading; the empty string hides it."""
        self._heading.setText(heading)
        self.setAccessibleName(heading)
        self.setVisible(bool(heading))

    def show_problem(self, sentence: str, cure: str) -> None:
        """Say beside the button of the example why it was not started, and on it what helps; if empty: what it does."""
        button, label = self.buttons["firstExampleButton"], self.sentences["firstExampleButton"]
        text, usual = map(tr, FIRST_STEPS["firstExampleButton"])
        button.setText(cure or text.format(example=EXAMPLE))
        if (sentence or usual) != label.text():
            label.setText(sentence or usual)  # the form has it whole
            button.setAccessibleDescription(sentence or usual)
            mark(label, role="" if sentence else "muted", tone="warn" if sentence else "")


NO_PRESETS = tr_noop("No presets yet")


class PresetsButton(QToolButton):
    """Reads the list each time it opens: presets are files that other programs may add or remove."""

    fill_asked = Signal(str)
    """The file of the preset to load."""
    remove_asked = Signal(str)
    keep_asked = Signal()
    """The current settings shall be saved as a preset."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "setupsButton", tr("Presets"))
        self.setToolTip(tr("Load a preset, save the current settings as one, or remove one"))
        menu = give_menu_below(self, tr("Presets"), "setupsMenu")
        menu.setToolTipsVisible(True)
        menu.aboutToShow.connect(self.list_presets)
        self._removing = QMenu(tr("Remove"), menu)

    def list_presets(self) -> None:
        """Update the list."""
        menu = self.menu()
        menu.clear()
        found = presets.read_all(presets.default_root())
        for preset in found:
            _describe(self._offer(menu, preset.name, preset, self.fill_asked), preset)
        if not found:
            menu.addAction(tr(NO_PRESETS)).setEnabled(False)
        menu.addSeparator()
        menu.addAction(tr("Save current settings…"), self.keep_asked.emit)
        if found:
            self._removing.clear()
            menu.addMenu(self._removing)
            for preset in found:
                self._offer(self._removing, f"{preset.name}…", preset, self.remove_asked)

    @staticmethod
    def _offer(menu: QMenu, text: str, preset: Preset, signal: SignalInstance) -> QAction:
        action = menu.addAction(menu_text(text))
        action.triggered.connect(lambda: signal.emit(str(preset.path)))
        return action


def _describe(action: QAction, preset: Preset) -> None:
    owner = owner_of_file(preset.path)
    belongs = [tr("It belongs to {owner}.", owner=owner)] if owner else []
    action.setEnabled(preset.spec is not None)
    action.setToolTip(verbatim("\n".join([summary(preset), *belongs])))


def summary(preset: Preset) -> str:
    """Return what a preset trains, in one line; its problem if it cannot be used."""
    spec = preset.spec
    if spec is None:
        return preset.problem
    devices = tr_plural("{count} device", "{count} devices", len(spec.devices))
    if spec.script is not None:
        what = f"{spec.script.name} {' '.join(spec.script.arguments)}".strip()
    else:
        what = f"{spec.own_recipe.name}, {spec.framework} {spec.strategy}"
    return tr("{what}, on {devices}", what=what, devices=devices)


SECRETS = tr_noop(
    "Names like this often belong to secrets. The preset then has the name alone, and takes the value "
    "from the environment at each start. To store the value: trainyard keep RUN NAME --secrets values"
)


class ReuseController:
    """Does what the menu of a run, the list of presets and the first steps ask for, and copies recipes."""

    def __init__(self, start: StartController) -> None:
        self._start, self._panels, self._message = start, start.panels, start.panels.message
        self._monitor, self._session = start.services.device_monitor, start.services.session
        self._wants_example = False
        """Whether the example was to be started and has not been."""
        self._cure: Cure | None = None
        """What the button of the example does before it starts that, where the GPUs cannot train."""
        panels = self._panels
        panels.actions.provide(
            again=lambda runs: self._use_run(runs[0], "Start", start.start_again),
            edit=lambda runs: self._use_run(runs[0], "Use", self._fill),
            copy=lambda runs: self._use_run(runs[0], "Copy", lambda spec: self._copy_command(spec, Path(runs[0]))),
            keep=lambda runs: self._use_run(runs[0], "Save", self._ask_name),
        )
        panels.failure.again_button.clicked.connect(lambda: self._use_shown("Start", start.start_again))
        panels.failure.change_asked.connect(lambda spec: self._use_shown("Use", partial(self._fill_changed, spec)))
        panels.details.settings.copy_text.triggered.connect(self._copy_settings)
        panels.details.settings.copy_command.triggered.connect(lambda: self._use_shown("Copy", self._copy_own_command))
        preset_button = panels.setup.presets
        preset_button.fill_asked.connect(lambda path: self._message.attempt(lambda: self._load(Path(path))))
        preset_button.remove_asked.connect(lambda path: self._ask_to_remove(Path(path)))
        preset_button.keep_asked.connect(self._keep_choices)
        panels.menu.provide(copyRecipe=self._ask_where_to_copy)
        panels.setup.recipe.picker.box.addAction(panels.menu.action("copyRecipe"))
        chosen, steps = panels.devices.chosen, panels.first_steps.buttons
        steps["firstTickButton"].clicked.connect(lambda: chosen.tick_only(free_devices(chosen.rows_of())))
        steps["firstExampleButton"].clicked.connect(self._train_example)
        steps["firstScriptButton"].clicked.connect(panels.menu.action("openScript").trigger)

    def _train_example(self) -> None:
        """Start the example on the ticked devices, or on the first free one."""
        chosen, setup = self._panels.devices.chosen, self._panels.setup
        if self._cure is not None:
            self._start.cure(self._cure)
        elif not chosen.ticked:
            chosen.tick_only(free_devices(chosen.rows_of())[:1])
        setup.choose_built_in(EXAMPLE)
        self._wants_example = True
        self._start.check(setup.choices())
        self._start.start()

    def show_check(self, check: StartCheck) -> None:
        """Say beside the first step of the example why it was not started, and offer the CPU unless that is ticked."""
        if not check.pending:
            self._wants_example &= bool(check.problems)
            cures = [cure for each in check.findings for cure in each.cures if cure.does == TICK]
            self._cure = cures[0] if cures and self._wants_example else None
            problem = join_sentences(check.problems) if self._wants_example else ""
            self._panels.first_steps.show_problem(problem, self._cure.words if self._cure else "")

    def _ask_where_to_copy(self) -> None:
        """Ask for the new file. The dialog itself asks before it takes the name of a file that exists."""
        try:
            recipe = self._panels.setup.recipe.chosen_recipe()
            recipes.check_source(recipe)
        except ValueError as error:
            self._message.show_message(str(error), "bad")
            return
        begin = FileDialog.last_folder or str(Path.home())
        title = tr("Copy {name} as a recipe", name=recipe.name)
        copy = lambda path: self._copy_recipe(recipe, Path(path))  # noqa: E731
        dialog = FileDialog(self._panels.window, title, copy, begin=begin, names=python_files())
        dialog.setObjectName("copyRecipeDialog")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setFileMode(QFileDialog.FileMode.AnyFile)
        dialog.setDefaultSuffix("py")
        dialog.selectFile(f"{recipe.name}.py")
        dialog.open()

    def _copy_recipe(self, recipe: RecipeFile, target: Path) -> None:
        def write() -> None:
            recipes.check_copy(recipe, target)
            export_bytes(recipes.standalone(recipe).encode(), target)

        if self._message.attempt(write):
            self._panels.setup.open_recipe(target)
            self._message.show_passing(tr("Copied {name} to {path}.", name=recipe.name, path=target))
            open_path(target, self._message)

    def _use_run(self, run_dir: str, verb: str, action: Callable[[RunSpec], object]) -> None:
        """Use the spec of a run that is started now or later; ask first if the run belongs to another user."""
        owner = owner_of_run(Path(run_dir))

        def use(spec: RunSpec) -> None:
            question = owner_question(verb, tr("the run {name}", name=spec.name), owner, spec)
            ask_first(self._panels.window, question, lambda: self._message.attempt(lambda: action(spec)))

        def attach() -> None:
            spec = Run.attach(Path(run_dir)).spec()
            spec.check_startable()
            use(spec)

        self._message.attempt(attach)

    def _use_shown(self, verb: str, action: Callable[[RunSpec], object]) -> None:
        """Do the same with the run that the window shows."""
        run = self._session.run
        if run is not None:
            self._use_run(str(run.dir), verb, action)

    def _load(self, path: Path) -> None:
        """Fill the form with a preset; ask first if it belongs to another user."""
        owner, spec = owner_of_file(path), presets.read(path)
        question = owner_question("Load", tr("the preset {name}", name=path.stem), owner, spec)
        ask_first(self._panels.window, question, lambda: self._message.attempt(lambda: self._fill(spec)))

    def _fill(self, spec: RunSpec) -> None:
        """Choose everything that the spec says, and name the devices that this machine does not have."""
        self._panels.setup.fill(spec)
        present = {device.id for device in self._monitor.all_machines.devices}
        hosts = {state.host.name for state in self._monitor.hosts.states}  # whose devices wait for their answer
        present |= {device for device in spec.devices if (parts := split_name(device)) and parts[0] in hosts}
        self._panels.devices.chosen.tick_only([device for device in spec.devices if device in present])
        gone = [device for device in spec.devices if device not in present]
        if gone:
            sentence = tr_plural(
                "{devices} was not ticked, since it is not on this machine.",
                "{devices} were not ticked, since they are not on this machine.",
                len(gone),
                devices=join_names(gone),
            )
            self._message.show_message(sentence, "warn")

    def _fill_changed(self, changed: RunSpec, spec: RunSpec) -> None:
        if changed.devices != spec.devices and self._session.run is not None:
            self._panels.devices.chosen.tick_only(changed.devices)
            self._panels.actions.do("resumeOn", [str(self._session.run.dir)])
            return
        self._fill(changed)
        if changed == spec:
            self._start.fit.begin(LARGEST)

    def _copy_settings(self) -> None:
        shown = self._panels.details.settings.shown
        if shown is not None:
            self._message.copy(shown.text, tr("Copied the settings of the run as text."))

    def _copy_command(self, spec: RunSpec, run_dir: Path) -> None:
        """Copy a command. It may have been asked about before: a terminal may execute what is pasted at once."""
        run = Run(run_dir, only=(SUPERVISOR_EVENTS,))
        run.catch_up()
        cores = {name: tuple(device.get("cores") or ()) for name, device in run.facts.devices.items()}
        copied = tr("Copied the shell command that starts {name} with the same settings.", name=spec.name)
        self._message.copy(shell_line(spec, cores), copied)

    def _copy_own_command(self, spec: RunSpec) -> None:
        copied = tr("Copied the command that starts {name} with the same settings.", name=spec.name)
        self._message.copy(repeat_line(spec), copied)

    def _keep_choices(self) -> None:
        check = self._start.current_check
        if check is None:
            self._message.show_message(tr("The choices are still being checked. Try again in a moment."), "warn")
        elif check.spec is None:
            self._message.show_message(join_sentences(check.problems), "bad")
        elif check.others:
            one = tr("A preset has one value of each setting. Leave one in each field, then save it.")
            self._message.show_message(one, "warn")
        else:
            self._ask_name(check.spec)

    def _ask_name(self, spec: RunSpec) -> None:
        def take(name: str) -> None:
            self._message.attempt(lambda: self._keep(spec, name))

        question, save = tr("Preset name"), tr("Save")
        NameDialog(self._panels.window, take, question=question, name=spec.name, yes=save, judge=_judge).open()

    def _keep(self, spec: RunSpec, name: str) -> None:
        secrets = presets.secret_names(spec)
        if not secrets:
            self._save(spec, name)
            return
        question = tr("Save the preset without the value of {names}?", names=join_names(secrets))
        action = partial(self._message.attempt, lambda: self._save(presets.without_values(spec, secrets), name))
        window, yes = self._panels.window, tr("Save without")
        ask(window, action, question=question, words=tr(SECRETS), yes=yes, is_destructive=False)

    def _save(self, spec: RunSpec, name: str) -> None:
        path = _path_of(name)
        try:
            presets.save(spec, path)
        except OSError as error:
            problem = tr("{path} cannot be written: {reason}. No preset was saved.", path=path, reason=error.strerror)
            raise ValueError(problem) from error
        self._message.show_passing(
            tr("Saved as {name}. Choose it under Presets, or start it with: trainyard run --setup {name!r}", name=name)
        )

    def _ask_to_remove(self, path: Path) -> None:
        question = tr("Remove the preset {name}?", name=path.stem)
        words = tr("Its file is deleted: {path}. Runs that were started from it stay as they are.", path=path)
        ask(self._panels.window, lambda: self._remove(path), question=question, words=words, yes=tr("Remove it"))

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            problem = tr("{path} cannot be removed: {reason}.", path=path, reason=error.strerror)
            self._message.show_message(problem, "bad")
        else:
            self._message.show_passing(tr("Removed the preset {name}.", name=path.stem))


def _path_of(name: str) -> Path:
    """Return the file of a preset. Raise `ValueError` for a name that is a path."""
    if "/" in name:
        raise ValueError(tr("{name!r} is not a valid preset name. Use letters, digits, spaces and . + - _.", name=name))
    return presets.path_of(name.removesuffix(presets.SUFFIX), presets.default_root())


def _judge(name: str) -> tuple[str, str]:
    try:
        path = _path_of(name)
    except ValueError as error:
        return str(error), ""
    return "", tr("A preset with this name exists and will be replaced.") if path.exists() else ""
