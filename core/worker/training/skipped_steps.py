"""Tell about the steps of float16 whose gradients overflowed, and which changed nothing. For all frameworks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...language import tr

if TYPE_CHECKING:
    from ..context import Context

REPORTED = 8
"""A skipped step is reported if it is the first, or if their number is a power of this."""


class SkippedSteps:
    """The steps of one optimizer that were skipped since the training began."""

    def __init__(self, *, name: str = "") -> None:
        """`name`: the optimizer's, where there are several."""
        self._name = name
        self.count = 0
        self.reported = 0
        """Their number when it was last reported."""

    def report(self, context: Context, step: int, *, scale: float) -> None:
        """Tell about a skipped step after so many steps, but not about each: they may be many."""
        if context.rank or self.count < max(1, self.reported * REPORTED):
            return
        self.reported = self.count
        optimizer = tr(" of optimizer {name}", name=self._name) if self._name else ""
        context.notice(
            tr(
                "float16: {skipped} of the first {step} steps{optimizer} changed nothing, because a gradient was not "
                "finite. The loss is now scaled by {scale:g}. A few such steps at the start are usual; if they go on, "
                "choose bfloat16 or float32.",
                skipped=self.count,
                step=step,
                optimizer=optimizer,
                scale=scale,
            )
        )
