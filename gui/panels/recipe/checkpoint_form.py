"""When checkpoints are written, and which are kept."""

from __future__ import annotations

from core.schema.settings import Checkpoints
from gui.widgets.forms import editors
from gui.widgets.forms.field_group import FieldGroup

UNITS = (
    ("automatic", "auto"),
    ("epochs", "epochs"),
    ("steps", "steps"),
    ("minutes", "minutes"),
    ("only on request", "never"),
)
"""What is read, and the unit behind it."""
COUNTED = ("epochs", "steps", "minutes")


class CheckpointForm(FieldGroup):
    """Fields of `Checkpoints`."""

    def __init__(self) -> None:
        super().__init__("Checkpoints")
        changed = self.changed.emit
        self._unit = editors.one_of(
            "checkpointUnitBox", "When checkpoints are written",
            "automatic: at ends of epochs, as often as a hundredth of the time allows. "
            "Pause and Save now always write one", changed, UNITS,
        )  # fmt: skip
        self._every = editors.whole(
            "checkpointEveryBox", "Distance of checkpoints", "So many epochs, steps or minutes from one to the next",
            changed, least=1, arrows=False,
        )  # fmt: skip
        self._add("&Save · every", shares=(7, 5), unit=self._unit, every=self._every)
        self._add(
            "&Keep latest · best", shares=(5, 7),
            keep=editors.whole(
                "checkpointKeepBox", "Checkpoints to keep", "So many of the latest are kept", changed,
                least=1, arrows=False,
            ),
            best=editors.check(
                "checkpointBestBox", "Keep the best checkpoint",
                "Also keep the one with the least val_loss (or loss, without validation)", changed,
                text="best",
            ),
        )  # fmt: skip
        self._set_usual(Checkpoints())
        self.changed.connect(self._follow_unit)
        self._follow_unit()

    def _follow_unit(self) -> None:
        self._every.widget.setVisible(self._unit.value() in COUNTED)
