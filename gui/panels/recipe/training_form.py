"""The settings that all trainings share: the usual three in one row, the others under "More"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QSpinBox, QVBoxLayout, QWidget

from core.schema.settings import Training
from gui.widgets.forms.editors import MAX_CHARACTERS, typed_number
from gui.widgets.forms.fields import line, side_by_side, stacked, whole_number

from .computing_form import ComputingForm
from .ending_form import EndingForm
from .learning_form import LearningForm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gui.widgets.forms.field_group import FieldGroup


class TrainingForm(QWidget):
    """The three usual ones; `more` holds the others and is laid out elsewhere."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        usual = Training()
        self._epochs = whole_number(
            "epochsBox", "Epochs", "How often the training data are gone through",
            least=1, value=usual.epochs, arrows=False,
        )  # fmt: skip
        self._batch = whole_number(
            "batchBox", "Global batch", "Items per optimizer step, over all devices and accumulation steps",
            least=1, value=usual.batch_size, arrows=False,
        )  # fmt: skip
        self._rate = line("rateEdit", "Learning rate", "The learning rate; left empty, the recipe's own")
        self._offered = ""
        self._computing = ComputingForm()
        self._groups: tuple[FieldGroup, ...] = (LearningForm(), EndingForm(), self._computing)
        self._lay_out()
        for box in self._boxes().values():
            box.valueChanged.connect(lambda _: self.changed.emit())
        self._rate.textChanged.connect(lambda _: self.changed.emit())
        for group in self._groups:
            group.changed.connect(self.changed)

    def values(self) -> dict[str, object]:
        """Fields of `Training`, as they are in the form: a learning rate that is no number stays a text."""
        others = {name: value for group in self._groups for name, value in group.values().items()}
        return {**self._numbers(), "learning_rate": typed_number(self._rate.text()), **others}

    def offer_rate(self, rate: float | None) -> None:
        """Fill in a recipe's learning rate, unless the user has written another. None: it keeps it to itself."""
        text = "" if rate is None else f"{rate:g}"
        untouched = self._rate.text().strip() in {"", self._offered}
        self._offered = text
        self._rate.setPlaceholderText(text or "recipe's")
        if untouched:
            self._rate.setText(text)

    def show_cell(self, framework: str, strategy: str) -> None:
        """Show what there is to set for this framework and strategy."""
        self._computing.show_cell(framework, strategy)

    def remember(self) -> dict[str, Any]:
        """What the user has set, for another day."""
        rate = self._rate.text().strip()
        others = {name: value for group in self._groups for name, value in group.remember().items()}
        return {**self._numbers(), "learning_rate": None if rate == self._offered else rate, **others}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Set again what was remembered; what does not fit is left out."""
        for name, box in self._boxes().items():
            value = values.get(name)
            if isinstance(value, int) and box.minimum() <= value <= box.maximum():
                box.setValue(value)
        if isinstance(values.get("learning_rate"), str):
            self._rate.setText(values["learning_rate"][:MAX_CHARACTERS])
        for group in self._groups:
            group.restore(values)

    def fill(self, values: Mapping[str, Any]) -> None:
        """Set what a spec has, also what is None there."""
        for name, box in self._boxes().items():
            box.setValue(values[name])
        rate = values["learning_rate"]
        self._rate.setText("" if rate is None else self._offered if rate == typed_number(self._offered) else str(rate))
        for group in self._groups:
            group.fill(values)

    def _boxes(self) -> dict[str, QSpinBox]:
        return {"epochs": self._epochs, "batch_size": self._batch}

    def _numbers(self) -> dict[str, object]:
        return {name: box.value() for name, box in self._boxes().items()}

    def _lay_out(self) -> None:
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(side_by_side(self._epochs, self._batch, self._rate))
        self._rate.setStyleSheet("QLineEdit { padding: 5px 6px; }")
        self.setFocusProxy(self._epochs)
        self.more = stacked(*self._groups)
