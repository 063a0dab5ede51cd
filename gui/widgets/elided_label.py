"""Labels that shorten their text, with the whole text as tooltip: by an ellipsis, or to a shorter form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy

from gui.base.painting import elided
from gui.base.text_size import scaled
from gui.widgets.plain_text import ColouredLabel, PlainLabel, Span, verbatim

Form: TypeAlias = "Sequence[Sequence[Span]]"
"""Groups of spans beside each other."""
MIN_WIDTH_PX = 24
MIN_LETTERS = 5
"""Minimum letters of a cut text; with fewer the label stays blank."""
VALUE_PX, KEPT_VALUES = 74, 2
"""Width of a value with its mark, whatever its digits, so that the neighbours do not move with them; for how many
values there is always room."""
ROUNDING_PX = 4
"""More than what rich text may be wider than the sum of its parts."""


class ElidedLabel(PlainLabel):
    """One line of plain text that shrinks below its text width."""

    def __init__(self, text: str = "", *, min_px: int = MIN_WIDTH_PX, name: str = "", role: str = "") -> None:
        super().__init__(text, name=name, role=role)
        self._min_px = min_px
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return at most `min_px`, so that the label gives way to its neighbours."""
        return QSize(min(scaled(self._min_px), super().minimumSizeHint().width()), super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 (Qt's name)
        """Paint the text that fits."""
        shown = elided(self.fontMetrics(), self.text(), self.contentsRect().width())
        self.setToolTip("" if shown == self.text() else verbatim(self.text()))
        if shown != self.text() and len(shown) <= MIN_LETTERS:
            return
        painter = QPainter(self)
        painter.setFont(self.font())
        painter.setPen(self.palette().color(self.foregroundRole()))
        painter.drawText(self.contentsRect(), self.alignment() | Qt.AlignmentFlag.AlignVCenter, shown)
        painter.end()


class ReadoutLabel(ColouredLabel):
    """Shows the longest of several forms that it has room for.

    If even the shortest lacks room, it is blank: half a number is a wrong number.
    """

    def __init__(self) -> None:
        self._forms: list[Form] = [()]
        self._shown: Form = ()
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def show_forms(self, forms: Sequence[Form]) -> None:
        """Show one of these forms, the longest first."""
        self._forms = [*forms] or [()]
        values = max((len(form) for form in self._forms[1:]), default=0)
        self.setMinimumWidth(scaled(VALUE_PX) * min(values, KEPT_VALUES))
        self._choose()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Choose the form again."""
        super().resizeEvent(event)
        self._choose()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        """Choose the form again at another size of the text."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._choose()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 (Qt's name)
        """Paint the whole text or nothing."""
        if self.sizeHint().width() <= self.width():
            super().paintEvent(event)

    def _choose(self) -> None:
        form = next((form for form in self._forms if self._width(form) <= self.width()), self._forms[-1])
        if form != self._shown:
            self._shown = form
            self.show_groups(form)
            whole = "   ".join("".join(span.text for span in group) for group in self._forms[0])
            self.setToolTip("" if form == self._forms[0] else verbatim(whole))

    def _width(self, form: Form) -> int:
        metrics = self.fontMetrics()
        texts = sum(metrics.horizontalAdvance(span.text) for group in form for span in group)
        return texts + metrics.horizontalAdvance("    ") * max(len(form) - 1, 0) + ROUNDING_PX
