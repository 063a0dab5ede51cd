"""The training card: framework, strategy, what to train and how; and whether that can be started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from core import catalog, recipes
from core.compose import Choices, default_learning_rate
from core.spec import CUDA_IDS
from gui.views.strategies import strategy_rows

from .checkpoint_form import CheckpointForm
from .fields import FormScroll, choice, form, label, select, stacked
from .more import More
from .naming_form import NamingForm
from .recipe_form import RecipeForm
from .recipe_picker import RecipePicker
from .release_form import ReleaseForm
from .strategy_box import StrategyBox
from .training_form import TrainingForm
from .verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from PySide6.QtGui import QDragEnterEvent, QDropEvent

    from core.devices.device import Device
    from gui.theme import Theme


class SetupPanel(QWidget):
    """The user's choices; none of them is ever changed behind their back."""

    changed = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        frameworks = [(_title(row), row.id) for row in catalog.FRAMEWORKS]
        self._framework = choice("frameworkBox", "Framework", "The library that trains", frameworks)
        self._strategy = StrategyBox(theme)
        self._recipe = RecipePicker()
        self._training = TrainingForm()
        self._settings = RecipeForm()
        self._checkpoints = CheckpointForm()
        self._release = ReleaseForm()
        self._naming = NamingForm()
        self._more = More("More", stacked(self._training.more, self._checkpoints, self._release, self._naming))
        self.verdict = Verdict()
        self._strategy_chosen = False
        self._devices: tuple[Device, ...] = ()
        self._has_gpus = False
        self._shown = ""
        self._left: dict[str, dict[str, Any]] = {}
        """By framework, what was chosen of it before another was looked at."""
        self._lay_out()
        self.show_machine(())
        self._offer(self._framework.currentData())
        self.reread()
        self._connect()

    def choices(self, devices: tuple[str, ...]) -> Choices:
        """All choices, together with the devices that are ticked."""
        return Choices(
            recipe=self._recipe.reference,
            devices=devices,
            framework=self._framework.currentData(),
            strategy=self._strategy.currentData(),
            settings=self._settings.values(),
            training=self._training.values(),
            checkpoints=self._checkpoints.values(),
            release={name: value for name, value in self._release.values().items() if value is not None},
            cuda_ids=str(self._naming.values()["cuda_ids"]) if self._has_gpus else CUDA_IDS[0],
        )

    def open_recipe(self, path: Path | str) -> None:
        """Choose a recipe file."""
        self._recipe.open_file(Path(path))

    def show_devices(self, devices: Sequence[Device]) -> None:
        """These are ticked: until the user has chosen a strategy, it is the usual one for so many."""
        self._devices = tuple(devices)
        self._strategy.show_rows(strategy_rows(self._shown, self._devices))
        self._follow_devices()

    def show_machine(self, devices: Sequence[Device]) -> None:
        """All that this machine has: without a GPU there is nothing to say of how GPUs are named."""
        self._has_gpus = any(device.kind != "cpu" for device in devices)
        self._naming.setVisible(self._has_gpus)

    def reread(self) -> None:
        """Look at the recipe's file again: it may have been edited."""
        reference = self._recipe.reference
        try:
            recipe = recipes.find(reference, self._shown)
        except ValueError:
            recipe = None  # what is wrong with it is said by the outlook, which reads it as well
        # Workloads of the same name are others in another framework, and so are their settings.
        folder = catalog.framework(self._shown).recipes
        self._settings.show_recipe(reference if "/" in reference else f"{folder}/{reference}", recipe)
        if recipe is not None:
            self._training.offer_rate(default_learning_rate(recipe))
        for number, row in enumerate(catalog.FRAMEWORKS):  # one may have been installed, too
            self._framework.setItemText(number, _title(row))

    def set_theme(self, theme: Theme) -> None:
        """Wear a theme."""
        self._strategy.set_theme(theme)

    def remember(self) -> dict[str, Any]:
        """All choices, for another day."""
        return {
            "framework": self._shown,
            **self._own(),
            "left": self._left,
            "training": self._training.remember(),
            "checkpoints": self._checkpoints.remember(),
            "release": self._release.remember(),
            "naming": self._naming.remember(),
            "settings": self._settings.remember(),
            "more": self._more.unfolded,
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Choose again what was remembered; what there is no longer, or makes no sense, is left out."""
        select(self._framework, str(kept.get("framework")))
        self._left = _plain(kept.get("left"))
        if self._strategy.show_strategy(str(kept.get("strategy"))):
            self._strategy_chosen = True
        self._settings.restore(_plain(kept.get("settings")))
        self.reread()
        self._recipe.choose(str(kept.get("recipe")))
        self._training.restore(_plain(kept.get("training")))
        self._checkpoints.restore(_plain(kept.get("checkpoints")))
        self._release.restore(_plain(kept.get("release")))
        self._naming.restore(_plain(kept.get("naming")))
        self._more.unfold(kept.get("more") is True)
        self._show_cell()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802 (Qt's name)
        """Take Python files."""
        if _dropped(event) is not None:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802 (Qt's name)
        """Choose the file that was dropped."""
        path = _dropped(event)
        if path is not None:
            self.open_recipe(path)

    def _take_framework(self) -> None:
        self._left[self._shown] = self._own()
        self._offer(self._framework.currentData())
        self.reread()
        self.changed.emit()

    def _own(self) -> dict[str, Any]:
        """What is chosen of the framework that is shown."""
        strategy = self._strategy.currentData() if self._strategy_chosen else None
        return {"strategy": strategy, "recipe": self._recipe.reference}

    def _offer(self, framework: str) -> None:
        """Offer the strategies and workloads of a framework; what was chosen of it before is so again."""
        self._shown = framework
        left = _plain(self._left.get(framework))
        self._strategy.show_rows(strategy_rows(framework, self._devices))
        self._strategy_chosen = self._strategy.show_strategy(str(left.get("strategy")))
        self._follow_devices()
        self._recipe.show_framework(framework, str(left.get("recipe") or self._recipe.reference))

    def _follow_devices(self) -> None:
        if not self._strategy_chosen:
            self._strategy.show_strategy(catalog.default_strategy(self._shown, len(self._devices)))
        self._show_cell()

    def _show_cell(self) -> None:
        self._training.show_cell(self._shown, self._strategy.currentData() or "")

    def _take_strategy(self) -> None:
        self._strategy_chosen = True
        self._show_cell()
        self.changed.emit()

    def _take_recipe(self) -> None:
        self.reread()
        self.changed.emit()

    def _connect(self) -> None:
        self._framework.currentIndexChanged.connect(lambda _: self._take_framework())
        self._strategy.chosen.connect(self._take_strategy)
        self._recipe.changed.connect(self._take_recipe)
        self._training.changed.connect(self.changed)
        self._settings.changed.connect(self.changed)
        self._checkpoints.changed.connect(self.changed)
        self._release.changed.connect(self.changed)
        self._naming.changed.connect(self.changed)
        self.setAcceptDrops(True)

    def _lay_out(self) -> None:
        content = QWidget()
        rows = form(content)
        rows.setContentsMargins(8, 2, 8, 2)
        rows.addRow(label("&Framework", self._framework), self._framework)
        rows.addRow(label("Strateg&y", self._strategy), self._strategy)
        rows.addRow(label("&Workload", self._recipe.box), self._recipe)
        rows.addRow(label("Epochs · &batch · rate", self._training), self._training)
        rows.addRow(self._settings)
        rows.addRow(self._more)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(FormScroll(content))
        layout.addWidget(self.verdict)
        layout.addStretch(1)
        self.verdict.setContentsMargins(8, 0, 8, 0)


def _plain(kept: object) -> dict[str, Any]:
    """What was remembered as a mapping; empty where it is none."""
    return kept if isinstance(kept, dict) else {}


def _title(row: catalog.Framework) -> str:
    return row.title if catalog.is_installed(row) else f"{row.title}  (not installed)"


def _dropped(event: QDropEvent) -> Path | None:
    """The one Python file that is dragged, if it is one."""
    urls = event.mimeData().urls()
    path = Path(urls[0].toLocalFile()) if len(urls) == 1 and urls[0].isLocalFile() else None
    return path if path is not None and path.suffix == ".py" else None
