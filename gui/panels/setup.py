"""The training card: framework, strategy, what to train and how; and whether that can be started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from core import catalog, recipes
from core.compose import Choices, default_learning_rate

from .fields import FormScroll, choice, form, label, select
from .more import More
from .recipe_form import RecipeForm
from .recipe_picker import RecipePicker
from .training_form import TrainingForm
from .verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PySide6.QtGui import QDragEnterEvent, QDropEvent


class SetupPanel(QWidget):
    """The user's choices; none of them is ever changed behind their back."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        frameworks = [(_title(row), row.id) for row in catalog.FRAMEWORKS]
        self._framework = choice("frameworkBox", "Framework", "The library that trains", frameworks)
        self._strategy = choice("strategyBox", "Strategy", "How the training is spread over the devices")
        self._recipe = RecipePicker()
        self._training = TrainingForm()
        self._settings = RecipeForm()
        self._more = More("More", self._training.more)
        self.verdict = Verdict()
        self._strategy_chosen = False
        self._devices = 0
        self._lay_out()
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
        )

    def open_recipe(self, path: Path | str) -> None:
        """Choose a recipe file."""
        self._recipe.open_file(Path(path))

    def show_device_count(self, count: int) -> None:
        """So many devices are ticked: until the user has chosen a strategy, it is the usual one for so many."""
        self._devices = count
        self._follow_devices()

    def reread(self) -> None:
        """Look at the recipe's file again: it may have been edited."""
        reference = self._recipe.reference
        try:
            recipe = recipes.find(reference, self._framework.currentData())
        except ValueError:
            recipe = None  # what is wrong with it is said by the outlook, which reads it as well
        self._settings.show_recipe(reference, recipe)
        if recipe is not None:
            self._training.offer_rate(default_learning_rate(recipe))

    def remember(self) -> dict[str, Any]:
        """All choices, for another day."""
        return {
            "framework": self._framework.currentData(),
            "strategy": self._strategy.currentData() if self._strategy_chosen else None,
            "recipe": self._recipe.reference,
            "training": self._training.remember(),
            "settings": self._settings.remember(),
            "more": self._more.unfolded,
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Choose again what was remembered; what there is no longer, or makes no sense, is left out."""
        select(self._framework, str(kept.get("framework")))
        if select(self._strategy, str(kept.get("strategy"))):
            self._strategy_chosen = True
        if isinstance(kept.get("settings"), dict):
            self._settings.restore(kept["settings"])
            self.reread()
        self._recipe.choose(str(kept.get("recipe")))
        if isinstance(kept.get("training"), dict):
            self._training.restore(kept["training"])
        self._more.unfold(kept.get("more") is True)

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
        self._offer(self._framework.currentData())
        self.reread()
        self.changed.emit()

    def _offer(self, framework: str) -> None:
        """Offer the strategies and workloads of a framework."""
        before = self._strategy.currentData()
        self._strategy.blockSignals(True)
        self._strategy.clear()
        for row in catalog.strategies(framework):
            self._strategy.addItem(row.title, row.strategy)
            self._strategy.setItemData(self._strategy.count() - 1, row.summary, Qt.ItemDataRole.ToolTipRole)
        kept = select(self._strategy, before)
        self._strategy.blockSignals(False)
        self._strategy_chosen = self._strategy_chosen and kept
        self._follow_devices()
        self._recipe.show_framework(framework)

    def _follow_devices(self) -> None:
        if self._strategy_chosen:
            return
        self._strategy.blockSignals(True)
        select(self._strategy, catalog.default_strategy(self._framework.currentData(), self._devices))
        self._strategy.blockSignals(False)

    def _take_strategy(self) -> None:
        self._strategy_chosen = True
        self.changed.emit()

    def _take_recipe(self) -> None:
        self.reread()
        self.changed.emit()

    def _connect(self) -> None:
        self._framework.currentIndexChanged.connect(lambda _: self._take_framework())
        self._strategy.currentIndexChanged.connect(lambda _: self._take_strategy())
        self._strategy.activated.connect(lambda _: self._take_strategy())
        self._recipe.changed.connect(self._take_recipe)
        self._training.changed.connect(self.changed)
        self._settings.changed.connect(self.changed)
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


def _title(row: catalog.Framework) -> str:
    return row.title if catalog.is_installed(row) else f"{row.title}  (not installed)"


def _dropped(event: QDropEvent) -> Path | None:
    """The one Python file that is dragged, if it is one."""
    urls = event.mimeData().urls()
    path = Path(urls[0].toLocalFile()) if len(urls) == 1 and urls[0].isLocalFile() else None
    return path if path is not None and path.suffix == ".py" else None
