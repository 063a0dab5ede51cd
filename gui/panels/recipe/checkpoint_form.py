"""When checkpoints are written and which are kept."""

from __future__ import annotations

from dataclasses import asdict

from core.language import tr, tr_noop
from core.schema.settings import Checkpoints
from gui.widgets.forms import editors
from gui.widgets.forms.field_group import FieldGroup

UNITS = (
    (tr_noop("automatic"), "auto"),
    (tr_noop("epochs"), "epochs"),
    (tr_noop("steps"), "steps"),
    (tr_noop("minutes"), "minutes"),
    (tr_noop("only on request"), "never"),
)
"""Shown text and unit."""
WITH_INTERVAL = ("epochs", "steps", "minutes")


class CheckpointForm(FieldGroup):
    """Fields of `Checkpoints`."""

    def __init__(self) -> None:
        super().__init__(tr("Checkpoints"))
        changed = self.changed.emit
        self._unit = editors.one_of(
            "checkpointUnitBox", tr("When checkpoints are written"),
            tr("Automatic: at the end of an epoch, using at most 1 % of the time. "
            "Pause and Save now always write one"), changed,
            [(tr(title), unit) for title, unit in UNITS],
        )  # fmt: skip
        self._every = editors.integer(
            "checkpointEveryBox", tr("Interval of checkpoints"), tr("Epochs, steps or minutes between two checkpoints"),
            changed, minimum=1, arrows=False,
        )  # fmt: skip
        self._add(tr("Save checkpoints"), unit=self._unit)
        self._add(tr("Every"), every=self._every)
        self._add(
            tr("Keep the latest"),
            keep=editors.integer(
                "checkpointKeepBox", tr("Checkpoints to keep"), tr("Number of latest checkpoints to keep"), changed,
                minimum=1, arrows=False,
            ),
        )  # fmt: skip
        self._add(
            tr("Keep the best"),
            best=editors.check(
                "checkpointBestBox", tr("Keep the best checkpoint"),
                tr("Also keep the checkpoint with the lowest val_loss (loss, without validation)"), changed,
                text=" ",
            ),
        )  # fmt: skip
        self.set_defaults(asdict(Checkpoints()))
        self.changed.connect(self._on_unit_changed)
        self._on_unit_changed()

    def _on_unit_changed(self) -> None:
        self._show_row("every", shown=self._unit.value() in WITH_INTERVAL)
