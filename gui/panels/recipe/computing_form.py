"""How a step is computed: with what precision, in which parts, from which random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.catalog import frameworks
from core.schema.settings import PRECISIONS, Training
from gui.widgets.forms import editors
from gui.widgets.forms.field_group import FieldGroup

if TYPE_CHECKING:
    from PySide6.QtWidgets import QCheckBox

PIPELINES = ("pipeline",)
"""The strategies that cut a pass into micro-batches."""
WITH_LOADERS = ("pytorch",)
"""The frameworks that load data in processes of their own."""


class ComputingForm(FieldGroup):
    """Fields of `Training`; those that mean nothing to a strategy are hidden, and not among its values."""

    def __init__(self) -> None:
        super().__init__("Computing")
        changed = self.changed.emit
        self._add(
            "&Precision",
            precision=editors.one_of(
                "precisionBox", "Precision", "bfloat16 computes in half the memory where it can (autocast)", changed,
                [(name, name) for name in PRECISIONS],
            ),
        )  # fmt: skip
        self._add(
            "Acc&umulation",
            accumulation=editors.whole(
                "accumulationBox", "Accumulation", "Parts per device and optimizer step, one after the other: "
                "it saves memory", changed, least=1,
            ),
        )  # fmt: skip
        self._add(
            "&Micro-batches",
            micro_batches=editors.whole(
                "microBatchesBox", "Micro-batches", "Parts of a batch that are under way in the stages of the "
                "pipeline at the same time", changed, least=1,
            ),
        )  # fmt: skip
        self._add(
            "&Loader workers",
            loader_workers=editors.whole(
                "workersBox", "Data-loader workers",
                "Processes per device that load data; 0 loads in the training process", changed, least=0,
            ),
        )  # fmt: skip
        self._add(
            "S&eed",
            seed=editors.whole("seedBox", "Seed", "Of shuffling, splitting and initial weights", changed, least=0),
        )
        compiled = editors.check(
            "compileBox", "Compile", "Compile the model: the first steps take longer, the others may be faster",
            changed, text=" ",
        )  # fmt: skip
        self._compile_box: QCheckBox = compiled.widget  # type: ignore[assignment]  # that is what `check` makes
        self._add("C&ompile", compile=compiled)
        self._set_usual(Training())

    def show_cell(self, framework: str, strategy: str) -> None:
        """Show what there is to set for this framework and strategy."""
        compiler = frameworks.framework(framework).compiler
        self._compile_box.setText(compiler)
        self._compile_box.setAccessibleName(f"Compile ({compiler})")
        self._show_row("micro_batches", shown=strategy in PIPELINES)
        self._show_row("loader_workers", shown=framework in WITH_LOADERS)
