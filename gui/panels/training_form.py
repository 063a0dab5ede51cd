"""The settings that all trainings share: the usual three in one row, the others under "More"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QSpinBox, QWidget

from core.spec import PRECISIONS, Training

from .fields import choice, form, label, line, select, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping

WHOLE_NUMBERS = ("epochs", "batch_size", "seed", "accumulation", "loader_workers")


class TrainingForm(QWidget):
    """The three usual ones; `more` holds the others and is laid out elsewhere."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        usual = Training()
        self._epochs = whole_number(
            "epochsBox",
            "Epochs",
            "How often the training data are gone through",
            least=1,
            value=usual.epochs,
            arrows=False,
        )
        self._batch = whole_number(
            "batchBox", "Global batch", "Items per optimizer step, over all devices and accumulation steps",
            least=1, value=usual.batch_size, arrows=False,
        )  # fmt: skip
        self._rate = line("rateEdit", "Learning rate", "The learning rate; left empty, the recipe's own")
        self._offered = ""
        self._more_fields(usual)
        self._lay_out()
        for box in (self._epochs, self._batch, self._seed, self._accumulation, self._workers):
            box.valueChanged.connect(lambda _: self.changed.emit())
        self._precision.currentIndexChanged.connect(lambda _: self.changed.emit())
        self._rate.textChanged.connect(lambda _: self.changed.emit())

    def values(self) -> dict[str, object]:
        """Fields of `Training`, as they are in the form: a learning rate that is no number stays a text."""
        numbers: dict[str, object] = {name: box.value() for name, box in self._boxes().items()}
        return {**numbers, "learning_rate": _number(self._rate.text()), "precision": self._precision.currentData()}

    def offer_rate(self, rate: float | None) -> None:
        """Fill in a recipe's learning rate, unless the user has written another. None: it keeps it to itself."""
        text = "" if rate is None else f"{rate:g}"
        untouched = self._rate.text().strip() in {"", self._offered}
        self._offered = text
        self._rate.setPlaceholderText(text or "recipe's")
        if untouched:
            self._rate.setText(text)

    def remember(self) -> dict[str, Any]:
        """What the user has set, for another day."""
        rate = self._rate.text().strip()
        kept = self.values()
        kept["learning_rate"] = None if rate == self._offered else rate
        return kept

    def restore(self, values: Mapping[str, Any]) -> None:
        """Set again what was remembered; what does not fit is left out."""
        for name, box in self._boxes().items():
            value = values.get(name)
            if isinstance(value, int) and box.minimum() <= value <= box.maximum():
                box.setValue(value)
        if isinstance(values.get("learning_rate"), str):
            self._rate.setText(values["learning_rate"][:40])
        select(self._precision, str(values.get("precision")))

    def _boxes(self) -> dict[str, QSpinBox]:
        boxes = (self._epochs, self._batch, self._seed, self._accumulation, self._workers)
        return dict(zip(WHOLE_NUMBERS, boxes, strict=True))

    def _more_fields(self, usual: Training) -> None:
        self._seed = whole_number(
            "seedBox", "Seed", "Of shuffling, splitting and initial weights", least=0, value=usual.seed
        )
        self._accumulation = whole_number(
            "accumulationBox", "Accumulation", "Micro-batches per device and optimizer step: it saves memory",
            least=1, value=usual.accumulation,
        )  # fmt: skip
        self._precision = choice(
            "precisionBox", "Precision", "bfloat16 computes in half the memory where it can (autocast)",
            [(name, name) for name in PRECISIONS],
        )  # fmt: skip
        self._workers = whole_number(
            "workersBox", "Data-loader workers", "Processes per device that load data; 0 loads in the training process",
            least=0, value=usual.loader_workers,
        )  # fmt: skip

    def _lay_out(self) -> None:
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(7)
        for widget in (self._epochs, self._batch, self._rate):
            widget.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)  # a third each
            row.addWidget(widget, 1)
        self._rate.setStyleSheet("QLineEdit { padding: 5px 6px; }")
        self.setFocusProxy(self._epochs)
        self.more = QWidget()
        rows = form(self.more)
        rows.addRow(label("S&eed", self._seed), self._seed)
        rows.addRow(label("Acc&umulation", self._accumulation), self._accumulation)
        rows.addRow(label("&Precision", self._precision), self._precision)
        rows.addRow(label("&Loader workers", self._workers), self._workers)


def _number(text: str) -> float | str | None:
    """What was typed as a number; a decimal comma is one too. What is none stays a text, to be complained of."""
    text = text.strip()
    if not text:
        return None
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return text
