"""The marks where a time axis leaves out an interruption of the run: `paused 0:24`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.language import tr, tr_noop
from core.series.run_series import Interruption
from core.series.series import Axis
from gui.style.formatting import duration

from .canvas import Canvas
from .end_mark import EndMark

TEXTS = {"paused": tr_noop("paused {time}"), "stopped": tr_noop("stopped {time}")}
DOWN = tr_noop("down {time}")
"""Said of a run that had failed or was lost."""
DISTANCE_PX = 90
"""Marks nearer to the one before than this have no label."""
MAX_MARKS = 40


class InterruptionMarks:
    """One dashed line for each interruption, with a label if there is room."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self.marks: list[EndMark] = []
        """Created when they are needed; the ones that are not needed are hidden."""

    def recolour(self) -> None:
        """Take the colours of the theme."""
        for mark in self.marks:
            mark.recolour()

    def show(self, interruptions: Sequence[Interruption], axis: Axis) -> None:
        """Mark these interruptions on an axis that has no room for them."""
        (left, right), width = self._canvas.x_range, self._canvas.pixel_size[0]
        places = axis.place(np.array([each.since for each in interruptions])).tolist()
        seen = [(x, each) for x, each in zip(places, interruptions, strict=True) if left <= x <= right][:MAX_MARKS]
        while len(self.marks) < len(seen):
            self._add()
        labelled_at = -np.inf
        for mark, (x, each) in zip(self.marks, seen, strict=False):
            mark.set_text(tr(TEXTS.get(each.state, DOWN), time=duration(each.duration_s)))
            mark.show(x)
            mark.place()
            labelled = x - labelled_at >= DISTANCE_PX * width
            mark.label.setVisible(labelled)
            labelled_at = x if labelled else labelled_at
        for mark in self.marks[len(seen) :]:
            mark.show(None)

    def _add(self) -> None:
        mark = EndMark(self._canvas, labelled=True)
        mark.recolour()
        self.marks.append(mark)
