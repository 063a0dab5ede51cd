"""The choices for a recipe: framework, strategy, workload and settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QWidget

from core.catalog import frameworks as catalog
from core.catalog import recipes, strategies
from core.catalog.frameworks import interpreter
from core.catalog.recipes import RecipeFile
from core.config.choices import RecipeChoices, default_learning_rate
from core.devices.device import Device
from core.language import tr, tr_noop
from core.schema.spec import RunSpec
from gui.features.setup.recipe_fields import RecipeForm, RecipePicker, RunForm, StrategyBox, TrainingForm, strategy_rows
from gui.widgets import forms
from gui.widgets.fields import choice, form, label, select
from gui.widgets.forms import CheckpointForm, FieldGroup

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
        self._recipe = RecipePicker()
        self._training = TrainingForm()
        self._settings = RecipeForm()
        self._checkpoints = CheckpointForm()
        self._run = RunForm()
        self.groups: tuple[FieldGroup, ...] = (self._settings, *self._training.groups, self._checkpoints, self._run)
        """The settings that are laid out elsewhere."""
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
            recipe=self._recipe.reference,
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
        return recipes.find(self._recipe.reference, self._shown_framework)

    def add_recipe_action(self, action: QAction) -> None:
        """Add an action to the context menu of the box with the workloads."""
        self._recipe.box.addAction(action)

    def show_open_ports(self, *, offered: bool) -> None:
        """Offer to allow open ports, or hide the box. A check of the choices decides this."""
        self._rows.setRowVisible(self._ports.widget, offered)

    def open_file(self, path: Path) -> None:
        """Choose a recipe file."""
        self._recipe.open_file(path)

    def choose_built_in(self, name: str) -> None:
        """Choose a built-in recipe by its name."""
        self._recipe.choose(name)

    def show_devices(self, devices: Sequence[Device]) -> None:
        """Adapt to the ticked devices: until the user chooses a strategy, select the default for their number."""
        self._devices = tuple(devices)
        self._strategy.show_rows(strategy_rows(self._shown_framework, self._devices))
        self._follow_devices()

    def reread(self) -> None:
        """Read the recipe file again: it may have been edited."""
        reference = self._recipe.reference
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
        self._recipe.choose(str(kept.get("recipe")))
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
            self._recipe.open_file(Path(reference))
        else:
            self._recipe.choose(reference)
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
        return {"strategy": strategy, "recipe": self._recipe.reference}

    def _offer(self, framework: str) -> None:
        """Offer the strategies and workloads of a framework, and restore the choices made for it before."""
        self._shown_framework = framework
        before = plain(self._other_frameworks.get(framework))
        self._strategy.show_rows(strategy_rows(framework, self._devices))
        self._strategy_chosen = self._strategy.show_strategy(str(before.get("strategy")))
        self._follow_devices()
        self._recipe.show_framework(framework, str(before.get("recipe") or self._recipe.reference))

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
        self._recipe.changed.connect(self._on_recipe_chosen)
        for part in (self._training, self._settings, self._checkpoints, self._run):
            part.changed.connect(self.changed)

    def _lay_out(self) -> None:
        rows = self._rows = form(self)
        rows.addRow(label(tr("Framewor&k"), self._framework), self._framework)
        rows.addRow(label(tr("Strateg&y"), self._strategy), self._strategy)
        rows.addRow("", self._ports.widget)
        self.show_open_ports(offered=False)
        rows.addRow(label(tr("&Workload"), self._recipe.box), self._recipe)
        rows.addRow(label(tr("Epochs · &batch · rate"), self._training), self._training)


def plain(kept: object) -> dict[str, Any]:
    """Return a restored value if it is a mapping, else an empty one."""
    return kept if isinstance(kept, dict) else {}
