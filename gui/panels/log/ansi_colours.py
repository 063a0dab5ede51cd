"""Terminal colours, adjusted to be readable on the background of the theme."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from PySide6.QtGui import QColor, QFont, QTextCharFormat

from .terminal import PLAIN, Style

if TYPE_CHECKING:
    from gui.style.theme import Theme

    from .terminal import Colour, Rgb

MIN_CONTRAST = 4.5
"""Minimum contrast of text: WCAG 2.1, success criterion 1.4.3."""
BASE: tuple[Rgb, ...] = (
    (40, 44, 52), (224, 76, 76), (40, 176, 110), (212, 160, 40), (70, 130, 240), (190, 100, 220), (30, 170, 190),
    (200, 206, 214), (110, 118, 130), (255, 112, 112), (80, 214, 150), (244, 204, 90), (110, 170, 255),
    (218, 140, 245), (90, 215, 235), (245, 247, 250),
)  # fmt: skip
"""The first sixteen colours, which every terminal defines itself."""
STEPS = (0, 95, 135, 175, 215, 255)
"""Levels of red, green and blue in the cube of 216 colours (xterm)."""


def char_format(style: Style, theme: Theme) -> QTextCharFormat:
    """Return the Qt format of a style."""
    result = QTextCharFormat()
    if style == PLAIN:
        return result
    foreground, background = _shown(style, theme)
    if foreground:
        result.setForeground(QColor(*foreground))
    if background:
        result.setBackground(QColor(*background))
    if style.bold:
        result.setFontWeight(QFont.Weight.Bold)
    result.setFontItalic(style.italic)
    result.setFontUnderline(style.underlined)
    return result


def _shown(style: Style, theme: Theme) -> tuple[Rgb | None, Rgb | None]:
    """Return foreground and background; None for the default."""
    panel, text = _parse_hex(theme.panel), _parse_hex(theme.muted if style.faint else theme.text)
    foreground, background = rgb(style.foreground), rgb(style.background)
    if foreground is None and background is None and not (style.inverse or style.faint):
        return None, None
    if style.inverse:
        behind = foreground or text
        return legible(background or panel, behind), behind
    return legible(foreground or text, background or panel), background


def rgb(colour: Colour) -> Rgb | None:
    """Return red, green and blue; None for the default colour."""
    if not isinstance(colour, int):
        return colour
    if colour < 16:
        return BASE[colour]
    if colour < 232:
        cell = colour - 16
        return STEPS[cell // 36], STEPS[cell // 6 % 6], STEPS[cell % 6]
    grey = 8 + 10 * (colour - 232)
    return grey, grey, grey


@lru_cache(maxsize=4096)
def legible(foreground: Rgb, background: Rgb) -> Rgb:
    """Return the foreground, made lighter or darker until it is readable on the background."""
    pole = 255 if contrast((255, 255, 255), background) > contrast((0, 0, 0), background) else 0
    for tenth in range(10):
        mixed = tuple(round(part + (pole - part) * tenth / 10) for part in foreground)
        tried = (mixed[0], mixed[1], mixed[2])
        if contrast(tried, background) >= MIN_CONTRAST:
            return tried
    return pole, pole, pole


def contrast(one: Rgb, other: Rgb) -> float:
    """Return the contrast ratio of WCAG 2.1, from 1 to 21."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: Rgb) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (each / 255 for each in colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _parse_hex(colour: str) -> Rgb:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
