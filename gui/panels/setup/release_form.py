"""How the memory is watched once training has ended."""

from __future__ import annotations

from core.schema.settings import ReleaseWatch
from gui.widgets.forms import editors
from gui.widgets.forms.field_group import FieldGroup


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
