"""The colours of a text that was written for a terminal, and its characters."""

from __future__ import annotations

import re

from PySide6.QtGui import QColor, QFont, QTextCharFormat

from core.diagnosis.terminal import PLAIN, Colour, Rgb, Style
from gui.base.colours import legible, parse
from gui.base.theme import current_theme

BASE: tuple[Rgb, ...] = (
    (40, 44, 52), (224, 76, 76), (40, 176, 110), (212, 160, 40), (70, 130, 240), (190, 100, 220), (30, 170, 190),
    (200, 206, 214), (110, 118, 130), (255, 112, 112), (80, 214, 150), (244, 204, 90), (110, 170, 255),
    (218, 140, 245), (90, 215, 235), (245, 247, 250),
)
"""The first sixteen colours, which every terminal defines itself."""
STEPS = (0, 95, 135, 175, 215, 255)
"""Levels of red, green and blue in the cube of 216 colours (xterm)."""
UNKNOWN = "\ufffd"
"""Replacement for bytes that are not text."""


def char_format(style: Style) -> QTextCharFormat:
    """Return the Qt format of a style."""
    result = QTextCharFormat()
    if style == PLAIN:
        return result
    foreground, background = _shown(style)
    if foreground:
        result.setForeground(QColor(*foreground))
    if background:
        result.setBackground(QColor(*background))
    if style.bold:
        result.setFontWeight(QFont.Weight.Bold)
    result.setFontItalic(style.italic)
    result.setFontUnderline(style.underlined)
    return result


def _shown(style: Style) -> tuple[Rgb | None, Rgb | None]:
    """Return foreground and background; None for the default."""
    theme = current_theme()
    panel, text = parse(theme.panel), parse(theme.muted if style.faint else theme.text)
    foreground, background = rgb(style.foreground), rgb(style.background)
    if foreground is None and background is None and not (style.inverse or style.faint):
        return None, None
    if style.inverse:
        behind = foreground or text
        return legible(background or panel, behind, theme.text_contrast), behind
    return legible(foreground or text, background or panel, theme.text_contrast), background


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


def readable(text: str) -> str:
    """Replace all non-ASCII characters in text that is mostly binary data.

    Qt would search and load a font for each script they resemble, which takes most of a second.
    """
    unknown = text.count(UNKNOWN)
    if unknown <= 2 or text.isascii():
        return text
    foreign = sum(character > "\x7f" for character in text)
    return re.sub(r"[^\x00-\x7f]+", UNKNOWN, text) if 8 * unknown >= foreign else text
