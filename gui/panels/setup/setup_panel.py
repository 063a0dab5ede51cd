"""The training card: what to train, a recipe or a script, and how; and whether that can be started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from core.catalog import recipes
from core.schema.settings import CUDA_IDS
from gui.panels.recipe.recipe_setup import RecipeSetup, plain
from gui.widgets.forms.collapsible_section import CollapsibleSection
from gui.widgets.forms.fields import FormScroll, stacked

from .naming_form import NamingForm
from .release_form import ReleaseForm
from .script_form import ScriptForm
from .start_status import StartStatus
from .workload_switch import WorkloadSwitch

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from core.config.choices import RecipeChoices
    from core.devices.device import Device
    from core.schema.spec import RunSpec
    from gui.style.theme import Theme
    from gui.viewmodels.setup.script_text import TypedScript
    from gui.viewmodels.setup.start_check import StartCheck


class SetupPanel(QWidget):
    """The user's choices; none of them is ever changed behind their back, and none is shown that would do nothing."""

    changed = Signal(object)
    """The choices (`choices`), after each change of them."""
    looked_near = Signal(object)
    """A script is being chosen, in this folder, if it is known: its Python is to be looked for near it."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._switch = WorkloadSwitch()
        self._recipe = RecipeSetup(theme)
        self.script = ScriptForm(theme)
        self.release = ReleaseForm()
        self.naming = NamingForm()
        self.more = CollapsibleSection("More", stacked(self._recipe.more, self.script.more, self.release, self.naming))
        self.setups = self._switch.setups
        self.verdict = StartStatus()
        self._has_gpus = False
        self._devices: tuple[str, ...] = ()
        self._lay_out()
        self.show_machine(())
        self._show_workload()
        self._connect()

    @property
    def is_script(self) -> bool:
        """Whether a script is chosen, not a recipe."""
        return self._switch.is_script

    def choices(self) -> RecipeChoices | TypedScript:
        """Return all choices, and the devices that are ticked."""
        release = {name: value for name, value in self.release.values().items() if value is not None}
        cuda_ids = str(self.naming.values()["cuda_ids"]) if self._has_gpus else CUDA_IDS[0]
        if self.is_script:
            return self.script.typed(self._devices, release, cuda_ids)
        return self._recipe.choices(self._devices, release, cuda_ids)

    def open_recipe(self, path: Path | str) -> None:
        """Choose a recipe file."""
        self._switch.show_script(is_script=False)
        self._recipe.open_file(Path(path))

    def open_script(self, path: Path | str) -> None:
        """Choose a script."""
        self._switch.show_script(is_script=True)
        self.script.choose(str(path))

    def open_file(self, path: Path) -> None:
        """Choose a file, or a program's folder, for what it is: a recipe has the functions of one."""
        try:
            recipes.read(path)
        except ValueError:
            self.open_script(path)
        else:
            self.open_recipe(path)

    def show_devices(self, devices: Sequence[Device]) -> None:
        """These are ticked."""
        self._devices = tuple(device.id for device in devices)
        self._recipe.show_devices(devices)
        self._emit_changed()

    def show_machine(self, devices: Sequence[Device]) -> None:
        """All that this machine has: without a GPU there is nothing to say of how GPUs are named."""
        self._has_gpus = any(device.kind != "cpu" for device in devices)
        self.naming.setVisible(self._has_gpus)

    def show_outlook(self, outlook: StartCheck) -> None:
        """What would come of pressing Start."""
        self.verdict.show_outlook(outlook)
        if self.is_script and outlook.proposed:
            self.script.show_proposal(outlook.proposed, outlook.why)
        if self.is_script and outlook.usual_python:
            self.script.show_usual_python(outlook.usual_python)

    def reread(self) -> None:
        """Look at the recipe's file again: it may have been edited."""
        self._recipe.reread()

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self._recipe.set_theme(theme)
        self.script.set_theme(theme)

    def remember(self) -> dict[str, Any]:
        """All choices, for another day."""
        return {
            **self._recipe.remember(),
            "is_script": self.is_script,
            "script": self.script.remember(),
            "release": self.release.remember(),
            "naming": self.naming.remember(),
            "more": self.more.unfolded,
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Choose again what was remembered; what there is no longer, or makes no sense, is left out."""
        self._recipe.restore(kept)
        self.script.restore(plain(kept.get("script")))
        self.release.restore(plain(kept.get("release")))
        self.naming.restore(plain(kept.get("naming")))
        self.more.unfold(kept.get("more") is True)
        self._switch.show_script(is_script=kept.get("is_script") is True)

    def fill(self, spec: RunSpec) -> None:
        """Choose all that a run, or a setup, was started with, but for its devices."""
        if spec.script is not None:
            self.script.fill(spec)
        else:
            self._recipe.fill(spec)
        self.release.fill({"tolerance_mb": spec.release.tolerance_mb, "wait_s": spec.release.wait_s})
        self.naming.fill({"cuda_ids": spec.cuda_ids})
        self._switch.show_script(is_script=spec.script is not None)
        self._emit_changed()

    def show_installed(self, frameworks: Collection[str]) -> None:
        """Mark the frameworks that are not installed."""
        self._recipe.show_installed(frameworks)

    def _emit_changed(self) -> None:
        self.changed.emit(self.choices())

    def _show_workload(self) -> None:
        """Show what can be chosen for a recipe, or for a script: the other would be passed over."""
        for part in (self._recipe, self._recipe.more):
            part.setVisible(not self.is_script)
        for part in (self.script, self.script.more):
            part.setVisible(self.is_script)

    def _take_switch(self) -> None:
        self._show_workload()
        if self.is_script:
            self.looked_near.emit(self.script.near)
        self._emit_changed()

    def _take_near(self) -> None:
        if self.is_script:
            self.looked_near.emit(self.script.near)

    def _take_script(self) -> None:
        """Who names a script means it."""
        if self.script.script:
            self._switch.show_script(is_script=True)

    def _connect(self) -> None:
        self.script.named.connect(self._take_script)
        self.script.near_changed.connect(self._take_near)
        for part in (self._recipe, self.script, self.release, self.naming, self._switch):
            part.changed.connect(self._emit_changed)
        self._switch.changed.connect(self._take_switch)

    def _lay_out(self) -> None:
        content = stacked(self._switch, self._recipe, self.script, self.more)
        content.setContentsMargins(8, 2, 8, 2)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(FormScroll(content))
        layout.addWidget(self.verdict)
        layout.addStretch(1)
        self.verdict.setContentsMargins(8, 0, 8, 0)
