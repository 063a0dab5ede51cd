"""When training ends before its last epoch; and how the memory is watched once it has ended."""

from __future__ import annotations

from core.spec import ReleaseWatch, Training

from . import editors
from .field_group import FieldGroup


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


class ReleaseForm(FieldGroup):
    """Fields of `ReleaseWatch`."""

    def __init__(self) -> None:
        super().__init__("Memory after the end")
        changed = self.changed.emit
        self._add(
            "Tole&rance · wait (s)", shares=(5, 5),
            tolerance_mb=editors.whole(
                "releaseToleranceBox", "Tolerance of the memory watch, in MB",
                "A device is released when no more than so many megabytes more are in use than before the run", changed,
                least=0, arrows=False, suffix=" MB",
            ),
            wait_s=editors.number(
                "releaseWaitEdit", "Time that the memory watch waits, in seconds",
                "So many seconds the memory is waited for at most; it is usually back within one", changed,
                empty=f"{ReleaseWatch().wait_s:g} s",
            ),
        )  # fmt: skip
        self._set_usual(ReleaseWatch())
