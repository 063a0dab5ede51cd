"""When training ends before its last epoch."""

from __future__ import annotations

from core.schema.settings import Training
from gui.widgets.forms import editors
from gui.widgets.forms.field_group import FieldGroup


class EndingForm(FieldGroup):
    """Fields of `Training`."""

    def __init__(self) -> None:
        super().__init__("Ending early")
        changed = self.changed.emit
        self._add(
            "Pa&tience · on NaN", shares=(5, 7),
            patience=editors.number(
                "patienceEdit", "Patience of early stopping, in epochs",
                "Training ends after so many epochs in which val_loss (or loss, without validation) did not improve; "
                "left empty, it goes through all epochs", changed, empty="off",
            ),
            stop_on_nan=editors.check(
                "nanBox", "Stop on NaN",
                "Fail at a loss that is not a finite number; unticked, it is told, and training goes on", changed,
                text="stop",
            ),
        )  # fmt: skip
        self._set_usual(Training())
