"""The settings of all recipes: epochs, batch size and learning rate in one row, the others in groups."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QSpinBox, QVBoxLayout, QWidget

from core.catalog import frameworks
from core.config.strategy_settings import without_meaning
from core.language import tr, tr_noop
from core.schema.settings import PRECISIONS, RATE_SCALINGS, SCHEDULES, Training
from gui.panels.recipe.distribution_form import DistributionForm
from gui.widgets.forms import editors
from gui.widgets.forms.editors import MAX_CHARACTERS, typed_number
from gui.widgets.forms.field_group import FieldGroup
from gui.widgets.forms.fields import line, side_by_side, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PySide6.QtWidgets import QCheckBox

SCHEDULE_TITLES = {"constant": tr_noop("constant"), "cosine": tr_noop("cosine")}
RATE_SCALING_TITLES = {"none": tr_noop("off"), "linear": tr_noop("linear"), "sqrt": tr_noop("square root")}
WITH_LOADERS = ("pytorch",)
"""Frameworks that load data in worker processes."""
WITH_STEPS_PER_EPOCH = ("pytorch", "tensorflow")
"""Frameworks whose epochs may have a number of steps of their own."""


class TrainingForm(QWidget):
    """Epochs, batch size and learning rate; `groups` has the other settings and is laid out elsewhere."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        defaults = Training()
        self._epochs = whole_number(
            "epochsBox", tr("Epochs"), tr("Passes over the training data"),
            minimum=1, value=defaults.epochs, arrows=False,
        )  # fmt: skip
        self._batch = whole_number(
            "batchBox", tr("Global batch"), tr("Samples per optimizer step, over all devices and accumulation steps"),
            minimum=1, value=defaults.batch_size, arrows=False,
        )  # fmt: skip
        self._rate = line("rateEdit", tr("Learning rate"), tr("Learning rate; empty: the recipe's own"))
        self._recipe_rate = ""
        self._computing = ComputingForm()
        self._distribution = DistributionForm()
        self.groups: tuple[FieldGroup, ...] = (LearningForm(), EndingForm(), self._computing, self._distribution)
        self._lay_out()
        for box in self._boxes().values():
            box.valueChanged.connect(lambda _: self.changed.emit())
        self._rate.textChanged.connect(lambda _: self.changed.emit())
        for group in self.groups:
            group.changed.connect(self.changed)

    def values(self) -> dict[str, object]:
        """Return the fields of `Training` as entered: a learning rate that is no number stays a string."""
        others = {name: value for group in self.groups for name, value in group.values().items()}
        return {**self._numbers(), "learning_rate": typed_number(self._rate.text()), **others}

    def offer_rate(self, rate: float | None) -> None:
        """Fill in the recipe's learning rate, unless the user entered another. None: the recipe does not state it."""
        text = "" if rate is None else f"{rate:g}"
        unchanged = self._rate.text().strip() in {"", self._recipe_rate}
        self._recipe_rate = text
        self._rate.setPlaceholderText(text or tr("recipe"))
        if unchanged:
            self._rate.setText(text)

    def show_strategy(self, framework: str, strategy: str) -> None:
        """Show the settings that this framework and strategy have."""
        self._computing.show_strategy(framework, strategy)
        self._distribution.show_strategy(framework, strategy)

    def remember(self) -> dict[str, Any]:
        """Return what the user set, for the settings file."""
        rate = self._rate.text().strip()
        others = {name: value for group in self.groups for name, value in group.remember().items()}
        return {**self._numbers(), "learning_rate": None if rate == self._recipe_rate else rate, **others}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Restore what `remember` returned; invalid values are ignored."""
        for name, box in self._boxes().items():
            value = values.get(name)
            if isinstance(value, int) and box.minimum() <= value <= box.maximum():
                box.setValue(value)
        if isinstance(values.get("learning_rate"), str):
            self._rate.setText(values["learning_rate"][:MAX_CHARACTERS])
        for group in self.groups:
            group.restore(values)

    def fill(self, values: Mapping[str, Any]) -> None:
        """Fill in the values of a spec, None included."""
        for name, box in self._boxes().items():
            box.setValue(values[name])
        rate = values["learning_rate"]
        self._rate.setText(
            "" if rate is None else self._recipe_rate if rate == typed_number(self._recipe_rate) else str(rate)
        )
        for group in self.groups:
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


class LearningForm(FieldGroup):
    """Learning rate schedule, weight decay and gradient clipping: fields of `Training`."""

    def __init__(self) -> None:
        super().__init__(tr("Optimizer"))
        self._add_rate_fields()
        changed = self.changed.emit
        self._add(
            tr("Weight decay"),
            weight_decay=editors.number(
                "decayEdit", tr("Weight decay"),
                tr("Weights shrink by rate × decay at each step, as in AdamW; empty: the recipe's own"), changed,
                empty=tr("from recipe"),
            ),
        )  # fmt: skip
        self._add(
            tr("Clip gradients"),
            gradient_clip=editors.number(
                "clipEdit", tr("Gradient clipping"),
                tr("Maximum norm of the gradient of the whole model; empty: no limit"), changed,
                empty=tr("off"),
            ),
        )  # fmt: skip
        self.set_defaults(asdict(Training()))

    def _add_rate_fields(self) -> None:
        """Add how the learning rate changes with the steps and with the batch."""
        changed = self.changed.emit
        self._add(
            tr("Schedule"),
            schedule=editors.one_of(
                "scheduleBox", tr("Schedule of the learning rate"),
                tr("Constant, or half a cosine down to 0 at the last step"), changed,
                [(tr(SCHEDULE_TITLES.get(name, name)), name) for name in SCHEDULES],
            ),
        )  # fmt: skip
        self._add(
            tr("Warm-up steps"),
            warmup_steps=editors.integer(
                "warmupBox", tr("Warm-up steps"),
                tr("Optimizer steps in which the learning rate rises to its full value"), changed,
                minimum=0, arrows=False,
            ),
        )  # fmt: skip
        self._add(
            tr("Scale rate"),
            rate_scaling=editors.one_of(
                "rateScalingBox", tr("Scaling of the learning rate"),
                tr("linear: rate × global batch / reference batch, as for SGD (Goyal et al. 2017); square root: for "
                   "Adam. The tab Settings shows the rate. Give warm-up steps, too."), changed,
                [(tr(RATE_SCALING_TITLES.get(name, name)), name) for name in RATE_SCALINGS],
            ),
        )  # fmt: skip
        self._add(
            tr("Reference batch"),
            reference_batch=editors.number(
                "referenceBatchEdit", tr("Reference batch"),
                tr("The global batch size for which the learning rate was chosen"), changed, empty=tr("none"),
            ),
        )  # fmt: skip


class EndingForm(FieldGroup):
    """Early stopping: fields of `Training`."""

    def __init__(self) -> None:
        super().__init__(tr("Early stopping"))
        changed = self.changed.emit
        self._add(
            tr("Stop early after"),
            patience=editors.number(
                "patienceEdit", tr("Stop early after, in epochs"),
                tr("Stop after this many epochs without a better val_loss (loss, without validation); empty: never"),
                changed, empty=tr("off"),
            ),
        )  # fmt: skip
        self._add(
            tr("Stop on NaN"),
            stop_on_nan=editors.check(
                "nanBox", tr("Stop on NaN"),
                tr("Stop the run when the loss becomes NaN or infinite. Otherwise only a warning is shown."), changed,
                text=" ",
            ),
        )  # fmt: skip
        self.set_defaults(asdict(Training()))


class ComputingForm(FieldGroup):
    """How a step is computed: fields of `Training`. Hides fields that a strategy lacks."""

    def __init__(self) -> None:
        super().__init__(tr("Computing"))
        changed = self.changed.emit
        self._add(
            tr("Precision"),
            precision=editors.one_of(
                "precisionBox", tr("Precision"),
                tr("bfloat16 and float16 use half the memory where possible (autocast); float16 scales the loss"),
                changed, [(name, name) for name in PRECISIONS],
            ),
        )  # fmt: skip
        self._add(
            tr("Accumulation"),
            accumulation=editors.integer(
                "accumulationBox", tr("Accumulation"), tr("Parts per device and optimizer step, computed one after the "
                "other; more parts need less memory"), changed, minimum=1,
            ),
        )  # fmt: skip
        self._add(
            tr("Micro-batches"),
            micro_batches=editors.integer(
                "microBatchesBox", tr("Micro-batches"), tr("Parts of a batch that the stages of the pipeline compute "
                "at the same time"), changed, minimum=1,
            ),
        )  # fmt: skip
        self._add(
            tr("Training metrics"),
            training_metrics=editors.check(
                "trainingMetricsBox", tr("Training metrics"),
                tr("Measure the recipe's metrics on training batches, too, in at most 1 % of the time"), changed,
                text=" ",
            ),
        )  # fmt: skip
        self._compile_box = self._add_program_fields()
        self.set_defaults(asdict(Training()))

    def _add_program_fields(self) -> QCheckBox:
        """Add what does not change how a batch is divided. Return the check box for the compiler."""
        changed = self.changed.emit
        self._add(
            tr("Steps per epoch"),
            steps_per_epoch=editors.number(
                "stepsPerEpochEdit", tr("Steps per epoch"),
                tr("Optimizer steps that make an epoch; a stream of unknown length needs it; empty: all of the data"),
                changed, empty=tr("all of the data"),
            ),
        )  # fmt: skip
        self._add(
            tr("Loader workers"),
            loader_workers=editors.integer(
                "workersBox", tr("Data-loader workers"),
                tr("Processes per device that load data; 0: the training process loads them"), changed, minimum=0,
            ),
        )  # fmt: skip
        self._add(
            tr("Seed"),
            seed=editors.integer(
                "seedBox", tr("Seed"), tr("Seed of shuffling, splitting and initial weights"), changed, minimum=0
            ),
        )
        compiled = editors.check(
            "compileBox", tr("Compile"),
            tr("Compile the model: the first steps take longer, later steps may be faster"),
            changed, text=" ",
        )  # fmt: skip
        self._add(tr("Compile"), compile=compiled)
        return compiled.widget  # type: ignore[return-value]  # `check` creates one

    def show_strategy(self, framework: str, strategy: str) -> None:
        """Show the settings that this framework and strategy have."""
        compiler = frameworks.framework(framework).compiler
        self._compile_box.setText(compiler)
        self._compile_box.setAccessibleName(tr("Compile ({compiler})", compiler=compiler))
        self._show_row("micro_batches", shown="micro_batches" not in without_meaning(framework, strategy))
        self._show_row("loader_workers", shown=framework in WITH_LOADERS)
        self._show_row("steps_per_epoch", shown=framework in WITH_STEPS_PER_EPOCH)
