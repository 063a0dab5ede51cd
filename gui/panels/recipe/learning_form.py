"""How the learning rate goes, and what else is done to gradients and weights."""

from __future__ import annotations

from core.schema.settings import SCHEDULES, Training
from gui.widgets.forms import editors
from gui.widgets.forms.field_group import FieldGroup


class LearningForm(FieldGroup):
    """Fields of `Training`."""

    def __init__(self) -> None:
        super().__init__("Optimizer")
        changed = self.changed.emit
        self._add(
            "S&chedule · warm-up", shares=(5, 3),
            schedule=editors.one_of(
                "scheduleBox", "Schedule of the learning rate",
                "constant, or cosine: down to 0 at the last step, along half a cosine", changed,
                [(name, name) for name in SCHEDULES],
            ),
            warmup_steps=editors.whole(
                "warmupBox", "Warm-up steps",
                "The learning rate rises to its full height in so many optimizer steps", changed,
                least=0, arrows=False,
            ),
        )  # fmt: skip
        self._add(
            "&Decay · clipping", shares=(5, 3),
            weight_decay=editors.number(
                "decayEdit", "Weight decay",
                "Weights shrink by rate × decay at each step, as in AdamW; left empty, the recipe's own", changed,
                empty="recipe's",
            ),
            gradient_clip=editors.number(
                "clipEdit", "Gradient clipping",
                "The largest norm of the whole model's gradient; left empty, there is no limit", changed,
                empty="off",
            ),
        )  # fmt: skip
        self._set_usual(Training())
