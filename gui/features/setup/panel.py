"""The training card: what to train, with its form for recipes, and whether it can start."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QButtonGroup, QPushButton, QWidget

from core.catalog import frameworks as catalog
from core.catalog import recipes, strategies
from core.catalog.installed import interpreter
from core.catalog.recipes import RecipeFile
from core.config.choices import RecipeChoices, default_learning_rate
from core.devices.device import Device
from core.language import tr, tr_noop
from core.schema.settings import GPUS, RELEASE, ReleaseWatch
from core.schema.spec import SCRIPT, RunSpec
from gui.base.theme import mark
from gui.features.setup.recipe_fields import RecipeForm, RecipePicker, RunForm, StrategyBox, TrainingForm, strategy_rows
from gui.features.setup.reuse import PresetsButton
from gui.features.setup.script_form import ScriptForm
from gui.features.setup.status import StartStatus
from gui.machine.script import TypedScript, typed_of
from gui.machine.start_check import StartCheck
from gui.widgets import forms
from gui.widgets.buttons import compact_button
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.fields import FormScroll, choice, form, label, row_of, select
from gui.widgets.forms import CheckpointForm, FieldGroup, SettingsForm, SettingsSheet, StopForm
from gui.widgets.layouts import hbox, vbox
from gui.widgets.plain_text import named


class WorkloadSwitch(QWidget):
    """Two buttons, one of them checked."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        built_in = tr("Train a built-in workload or a recipe file with model()")
        self.recipe = _segment("recipeModeButton", tr("A recipe"), built_in)
        self.script = _segment("scriptModeButton", tr("Your own script"), tr("Start a training program unchanged"))
        self.presets = PresetsButton()
        self._group = QButtonGroup(self)
        for button in (self.recipe, self.script):
            self._group.addButton(button)
        self.recipe.setChecked(True)
        self.script.toggled.connect(lambda _: self.changed.emit())  # the recipe button is always the opposite
        hbox(self, self.recipe, self.script, 0, self.presets, gap=4)

    @property
    def is_script(self) -> bool:
        """True if a script is chosen."""
        return self.script.isChecked()

    def show_script(self, *, is_script: bool) -> None:
        """Check one of the buttons."""
        (self.script if is_script else self.recipe).setChecked(True)


def _segment(name: str, text: str, tip: str) -> QPushButton:
    button = named(QPushButton(text), name, tip=tip, role="segment")
    button.setCheckable(True)
    return button


OPEN_PORTS = tr_noop(
    "Start although other users can connect to the ports of this strategy without a password, and read and "
    "write your files"
)


class RecipeSetup(QWidget):
    """Never changes the user's choices. `groups` are laid out elsewhere."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        frameworks = [(row.title, row.id) for row in catalog.FRAMEWORKS]
        self._framework = choice("frameworkBox", tr("Framework"), tr("The library that trains"), frameworks)
        self._strategy = StrategyBox()
        allow = tr("Allow open ports")
        self._ports = forms.check("allowOpenPorts", allow, tr(OPEN_PORTS), self.changed.emit, text=allow)
        self.picker = RecipePicker()
        self._training = TrainingForm()
        self._settings = RecipeForm()
        self._checkpoints = CheckpointForm()
        self._run = RunForm()
        self.groups: tuple[FieldGroup, ...] = (self._settings, *self._training.groups, self._checkpoints, self._run)
        """The settings that are laid out elsewhere."""
        self.early = self._training.early
        self._strategy_chosen = False
        self._devices: tuple[Device, ...] = ()
        self._shown_framework = ""
        self._other_frameworks: dict[str, dict[str, Any]] = {}
        """By framework, the choices made before another framework was shown."""
        self._lay_out()
        self._offer(self._framework.currentData())
        self.reread()
        self._connect()

    def choices(
        self, devices: tuple[str, ...], stop: Mapping[str, object], release: Mapping[str, object], cuda_ids: str
    ) -> RecipeChoices:
        """Return all choices together with those made elsewhere."""
        return RecipeChoices(
            recipe=self.picker.reference,
            devices=devices,
            framework=self._framework.currentData(),
            strategy=self._strategy.currentData(),
            settings=self._settings.remember(),
            training=self._training.values(),
            checkpoints=self._checkpoints.values(),
            stop=stop,
            release=release,
            cuda_ids=cuda_ids,
            allow_open_ports=self._allows_ports,
            **self._run.chosen(),
        )

    def chosen_recipe(self) -> RecipeFile:
        """Return the chosen recipe. Raises `ValueError` with a sentence if it cannot be read."""
        return recipes.find(self.picker.reference, self._shown_framework)

    def show_open_ports(self, *, offered: bool) -> None:
        """Offer to allow open ports, or hide the box. A check of the choices decides this."""
        self._rows.setRowVisible(self._ports.widget, offered)

    def show_devices(self, devices: Sequence[Device]) -> None:
        """Adapt to the ticked devices: until the user chooses a strategy, select the default for their number."""
        self._devices = tuple(devices)
        self._strategy.show_rows(strategy_rows(self._shown_framework, self._devices))
        self._follow_devices()

    def reread(self) -> None:
        """Read the recipe file again: it may have been edited."""
        reference = self.picker.reference
        try:
            recipe = self.chosen_recipe()
        except ValueError:
            recipe = None  # the start check reads the recipe too and reports the problem
        self._settings.show_recipe(self._key(reference), recipe)
        if recipe is not None:
            self._training.offer_rate(default_learning_rate(recipe))

    def show_installed(self, frameworks: Collection[str]) -> None:
        """Mark the frameworks that are not installed."""
        for number, row in enumerate(catalog.FRAMEWORKS):
            title = row.title if row.id in frameworks else tr("{name}  (not installed)", name=row.title)
            self._framework.setItemText(number, title)

    def set_value(self, name: str, value: str) -> None:
        """Set the batch size or the Python."""
        for part in (self._training, self._run):
            part.restore({**part.remember(), name: int(value) if value.isdecimal() else value})

    def remember(self) -> dict[str, Any]:
        """Return all choices, for the settings file."""
        return {
            "framework": self._shown_framework,
            **self._framework_choices(),
            "left": self._other_frameworks,
            "training": self._training.remember(),
            "checkpoints": self._checkpoints.remember(),
            "settings": self._settings.remember_all(),
            "run": self._run.remember(),
            "allow_open_ports": self._ports.value(),
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Restore what `remember` returned; missing and invalid values are ignored."""
        select(self._framework, str(kept.get("framework")))
        self._other_frameworks = plain(kept.get("left"))
        if self._strategy.show_strategy(str(kept.get("strategy"))):
            self._strategy_chosen = True
        self._settings.restore_all(plain(kept.get("settings")))
        self.reread()
        self.picker.choose(str(kept.get("recipe")))
        self._training.restore(plain(kept.get("training")))
        self._checkpoints.restore(plain(kept.get("checkpoints")))
        self._run.restore(plain(kept.get("run")))
        self._ports.set_value(kept.get("allow_open_ports") is True)
        self._show_strategy()

    def fill(self, spec: RunSpec) -> None:
        """Fill in the settings of a run. A recipe without its file is selected too; the start check reports it."""
        select(self._framework, spec.framework)
        recipe = spec.own_recipe
        built_in = {str(each.path): each.name for each in recipes.built_in(spec.framework)}
        reference = built_in.get(recipe.path, recipe.path)
        self._settings.restore_all({**self._settings.remember_all(), self._key(reference): dict(recipe.settings)})
        if "/" in reference:
            self.picker.open_file(Path(reference))
        else:
            self.picker.choose(reference)
        self.reread()
        self._strategy_chosen = self._strategy.show_strategy(spec.strategy)
        self._ports.set_value(spec.allow_open_ports)
        self._show_strategy()
        self._training.fill(asdict(spec.training))
        self._checkpoints.fill(asdict(spec.checkpoints))
        name = "" if spec.name == recipe.name else spec.name
        default = interpreter(catalog.framework(self._framework.currentData()))
        python = "" if spec.python == default else spec.python
        self._run.fill({"name": name, "working_dir": spec.working_dir, "python": python})
        self.changed.emit()

    @property
    def _allows_ports(self) -> bool:
        """Whether open ports are allowed to the chosen strategy; False for one that opens none."""
        chosen = self._strategy.currentData()
        opening = {row.name for row in strategies.strategies_of(self._shown_framework) if row.needs_addresses}
        return chosen in opening and self._ports.value() is True

    def _key(self, reference: str) -> str:
        """Return the key of a recipe's settings: equal names in two frameworks are different workloads."""
        return reference if "/" in reference else f"{catalog.framework(self._shown_framework).recipes}/{reference}"

    def _on_framework_chosen(self) -> None:
        self._other_frameworks[self._shown_framework] = self._framework_choices()
        self._run.forget_filled()
        self._offer(self._framework.currentData())
        self.reread()
        self.changed.emit()

    def _framework_choices(self) -> dict[str, Any]:
        """Return the choices for the shown framework."""
        strategy = self._strategy.currentData() if self._strategy_chosen else None
        return {"strategy": strategy, "recipe": self.picker.reference}

    def _offer(self, framework: str) -> None:
        """Offer the strategies and workloads of a framework, and restore the choices made for it before."""
        self._shown_framework = framework
        before = plain(self._other_frameworks.get(framework))
        self._strategy.show_rows(strategy_rows(framework, self._devices))
        self._strategy_chosen = self._strategy.show_strategy(str(before.get("strategy")))
        self._follow_devices()
        self.picker.show_framework(framework, str(before.get("recipe") or self.picker.reference))

    def _follow_devices(self) -> None:
        if not self._strategy_chosen:
            self._strategy.show_strategy(strategies.default_strategy(self._shown_framework, len(self._devices)))
        self._show_strategy()

    def _show_strategy(self) -> None:
        self._training.show_strategy(self._shown_framework, self._strategy.currentData() or "")

    def _on_strategy_chosen(self) -> None:
        self._strategy_chosen = True
        self._show_strategy()
        self.changed.emit()

    def _on_recipe_chosen(self) -> None:
        self._run.forget_filled()
        self.reread()
        self.changed.emit()

    def _connect(self) -> None:
        self._framework.currentIndexChanged.connect(lambda _: self._on_framework_chosen())
        self._strategy.chosen.connect(self._on_strategy_chosen)
        self.picker.changed.connect(self._on_recipe_chosen)
        for part in (self._training, self._settings, self._checkpoints, self._run):
            part.changed.connect(self.changed)

    def _lay_out(self) -> None:
        rows = self._rows = form(self)
        rows.addRow(label(tr("Framewor&k"), self._framework), self._framework)
        rows.addRow(label(tr("Strateg&y"), self._strategy), self._strategy)
        rows.addRow("", self._ports.widget)
        self.show_open_ports(offered=False)
        rows.addRow(label(tr("&Workload"), self.picker.box), self.picker)
        rows.addRow(label(tr("Epochs · &batch · rate"), self._training), self._training)


def plain(kept: object) -> dict[str, Any]:
    """Return a restored value if it is a mapping, else an empty one."""
    return kept if isinstance(kept, dict) else {}


class SetupPanel(QWidget):
    """The user's choices. It never changes a choice by itself, and hides fields that would have no effect."""

    changed = Signal(object)
    """The choices (`choices`), after each change."""
    search_folder_changed = Signal(object)
    """The folder of the chosen script, or None: a Python for the script shall be looked for near it."""

    def __init__(self, window: QWidget | None = None) -> None:
        """`window`: over a part of which the settings are opened; without one, they stay in this panel."""
        super().__init__()
        self._switch = WorkloadSwitch()
        self.recipe = RecipeSetup()
        self.script = ScriptForm()
        self.stop = StopForm()
        self.release = SettingsForm(ReleaseWatch, RELEASE)
        self.naming = SettingsForm(RunSpec, GPUS)
        self._everywhere = (self.naming, self.stop, self.release)
        self._groups = (*self.recipe.groups, self.script.more, *self._everywhere)
        self.sheet = SettingsSheet(self._groups, window or self)
        tip, toggle = tr("Open all settings over the plots, with a search"), self.sheet.toggle
        self.all_settings = compact_button("allSettingsButton", tr("All settings…"), tip, role="link", does=toggle)
        self._changes = ElidedLabel(name="changedSettings", role="small")
        self.presets = self._switch.presets
        self.status = StartStatus()
        self._has_gpus = False
        self._devices: tuple[str, ...] = ()
        self._lay_out()
        self.show_machine(())
        self._show_workload()
        self._connect()

    @property
    def is_script(self) -> bool:
        """True if a script is chosen, False for a recipe."""
        return self._switch.is_script

    def choices(self) -> RecipeChoices | TypedScript:
        """Return all choices with the ticked devices."""
        stop, release = self.stop.chosen(), self.release.chosen()
        cuda_ids = str(self.naming.values()["cuda_ids"]) if self._has_gpus else "uuid"
        if self.is_script:
            training = self.recipe.early.chosen()
            return self.script.typed(self._devices, training=training, stop=stop, release=release, cuda_ids=cuda_ids)
        return self.recipe.choices(self._devices, stop, release, cuda_ids)

    def open_recipe(self, path: Path | str) -> None:
        """Choose a recipe file."""
        self._switch.show_script(is_script=False)
        self.recipe.picker.open_file(Path(path))

    def choose_built_in(self, name: str) -> None:
        """Choose a built-in recipe by its name."""
        self._switch.show_script(is_script=False)
        self.recipe.picker.choose(name)

    def open_script(self, path: Path | str) -> None:
        """Choose a script."""
        self._switch.show_script(is_script=True)
        self.script.choose(str(path))

    def open_file(self, path: Path) -> None:
        """Open a file or a folder of a program as a recipe if it has the functions of one, else as a script."""
        try:
            recipes.read(path)
        except ValueError:
            self.open_script(path)
        else:
            self.open_recipe(path)

    def set_value(self, name: str, value: str) -> None:
        """Set the batch size, or the Python, which a script has, too."""
        if self.is_script:
            self.script.choose_python(value)
        else:
            self.recipe.set_value(name, value)

    def show_devices(self, devices: Sequence[Device]) -> None:
        """Adapt to the ticked devices."""
        self._devices = tuple(device.id for device in devices)
        self.recipe.show_devices(devices)
        self._emit_changed()

    def show_machine(self, devices: Sequence[Device]) -> None:
        """Adapt to the devices of this machine: without a GPU, hide the field for GPU names."""
        had_gpus, self._has_gpus = self._has_gpus, any(device.kind != "cpu" for device in devices)
        self._show_groups()
        if self._has_gpus is not had_gpus:
            self._emit_changed()  # the choices have another `cuda_ids`

    def show_check(self, check: StartCheck) -> None:
        """Show whether the run can start, or why not."""
        self.status.show_check(check)
        if not check.pending:
            self.recipe.show_open_ports(offered=check.offers_open_ports)
        if self.is_script and check.proposed:
            self.script.show_suggestion(check.proposed, check.why)
        if self.is_script and check.usual_python:
            self.script.show_default_python(check.usual_python)

    def remember(self) -> dict[str, Any]:
        """Return all choices, for the settings file."""
        return {
            **self.recipe.remember(),
            "is_script": self.is_script,
            "script": self.script.remember(),
            "overrides": {name: value for group in self._everywhere for name, value in group.overrides().items()},
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Restore what `remember` returned; missing and invalid values are ignored."""
        self.recipe.restore(kept)
        self.script.restore(plain(kept.get("script")))
        for group in self._everywhere:
            group.restore(plain(kept.get("overrides")))
        self._switch.show_script(is_script=kept.get("is_script") is True)

    def fill(self, spec: RunSpec) -> None:
        """Fill in the settings of a run or a preset, except its devices."""
        if spec.script is not None:
            self.script.restore(typed_of(spec))
            self.recipe.early.fill({"stop_on_nan": spec.training.stop_on_nan})
        else:
            self.recipe.fill(spec)
        self.stop.fill_from(spec)
        self.release.fill(asdict(spec.release))
        self.naming.fill({"cuda_ids": spec.cuda_ids})
        self._switch.show_script(is_script=spec.script is not None)
        self._emit_changed()

    def _emit_changed(self) -> None:
        self._show_changes()
        self.changed.emit(self.choices())

    def _show_workload(self) -> None:
        """Show the fields for a recipe or for a script."""
        self.recipe.setVisible(not self.is_script)
        self.script.setVisible(self.is_script)
        self._show_groups()

    def _show_groups(self) -> None:
        """Offer the groups of settings that a recipe or a script has on this machine."""
        for group in self.recipe.groups:
            group.show_group(wanted=not self.is_script or group is self.recipe.early)
        self.script.more.show_group(wanted=self.is_script)
        self.naming.show_group(wanted=self._has_gpus)
        self.recipe.early.show_strategy(SCRIPT if self.is_script else "")
        self.stop.show_strategy(SCRIPT if self.is_script else "")
        self.stop.show_group(wanted=True)
        self.release.show_group(wanted=True)
        self._show_changes()

    def _show_changes(self) -> None:
        """List the settings that differ from their defaults."""
        changes = [change for group in self._groups if group.wanted for change in group.changes()]
        text = tr("Other settings have their defaults")
        if changes:
            text = tr("Changed: {changes}", changes=tr(", ").join(changes))
        if text != self._changes.text():
            self._changes.setText(text)
            self._changes.setAccessibleName(text)
            mark(self._changes, tone="accent" if changes else "muted")

    def _on_switched(self) -> None:
        self._show_workload()
        self._on_search_folder_changed()
        self._emit_changed()

    def _on_search_folder_changed(self) -> None:
        if self.is_script:
            self.search_folder_changed.emit(self.script.search_folder)

    def _on_script_named(self) -> None:
        """Switch to the script form when a script is named."""
        if self.script.script:
            self._switch.show_script(is_script=True)

    def _connect(self) -> None:
        self.script.named.connect(self._on_script_named)
        self.script.search_folder_changed.connect(self._on_search_folder_changed)
        for part in (self.recipe, self.script, self.stop, self.release, self.naming, self._switch):
            part.changed.connect(self._emit_changed)
        self._switch.changed.connect(self._on_switched)
        self.sheet.closed.connect(self.all_settings.setFocus)

    def _lay_out(self) -> None:
        others = row_of(self._changes, self.all_settings, shares=(1, 0))
        others.setContentsMargins(8, 0, 8, 0)
        vbox(content := QWidget(), self._switch, self.recipe, self.script, gap=7)
        content.setContentsMargins(8, 2, 8, 2)
        vbox(self, FormScroll(content), others, self.status, 0, gap=4)
