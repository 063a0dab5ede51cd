"""The sizes of the parts of a device's row, from the font."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtGui import QFont, QFontMetrics

from gui.style.text_size import scaled
from gui.widgets.painting import small_font

LEFT_PX, RIGHT_PX, GAP_PX = 8, 8, 8
SQUARE_PX, BAR_PX = 8, 6
"""Side of the square and thickness of a bar, at a text scale of 1."""
ABOVE_PX, BELOW_PX = 3, 3
"""Room above and below the text of a row."""


@dataclass(frozen=True, slots=True)
class RowSizes:
    """Sizes of the parts of a row in pixels. They follow the font; columns are as wide as their longest text."""

    font: QFont
    bold: QFont
    small: QFont
    small_bold: QFont
    line: int
    small_line: int
    heading: int
    """Height of a heading, and of the line of the CPU devices."""
    tick: int
    square: int
    """Left end of the square in the colour of the device."""
    square_side: int
    bar: int
    """Thickness of a bar."""
    label: int
    """Left end of the label and of everything below it."""
    percent: int
    temperature: int

    @classmethod
    def of(cls, font: QFont) -> RowSizes:
        """Return the sizes for the font of the list."""
        small, bold = small_font(font), QFont(font)
        bold.setBold(True)
        small_bold = QFont(small)
        small_bold.setBold(True)
        normal_metrics, small_metrics = QFontMetrics(font), QFontMetrics(small)
        line = normal_metrics.height() + 3
        tick = normal_metrics.height()
        return cls(
            font=font,
            bold=bold,
            small=small,
            small_bold=small_bold,
            line=line,
            small_line=small_metrics.height() + 2,
            heading=line + 5,
            tick=tick,
            square=LEFT_PX + tick + GAP_PX + 2,
            square_side=scaled(SQUARE_PX),
            bar=scaled(BAR_PX),
            label=LEFT_PX + tick + GAP_PX + 2 + scaled(SQUARE_PX) + GAP_PX,
            percent=small_metrics.horizontalAdvance("100 %"),
            temperature=small_metrics.horizontalAdvance("100 °C"),
        )

    def width(self, text: str, font: QFont | None = None) -> int:
        """Return the width of a text, in the small font if none is given."""
        return QFontMetrics(font or self.small).horizontalAdvance(text)

    def row(self, *, dense: bool) -> int:
        """Return the height of a row without heading and foot."""
        return ABOVE_PX + self.line + (1 if dense else 2) * self.small_line + BELOW_PX
