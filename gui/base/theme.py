"""The dark and the light theme, each also with strong contrast: colours, palette and style sheet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFontDatabase, QPalette, QStyleHints
from PySide6.QtWidgets import QAbstractSpinBox, QApplication, QLineEdit, QWidget

import resources
from core.palette import ON_DARK, ON_LIGHT, STRONG_ON_DARK, STRONG_ON_LIGHT
from gui.base.text_size import scaled_sheet

RESOURCES = Path(resources.__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Named colours, `#rrggbb`. On its ground a text has at least `text_contrast`, a border or mark `mark_contrast`."""

    name: str
    is_dark: bool
    is_strong: bool = False
    """Whether the contrasts are those of WCAG's level AAA, and what else is a ground alone has a border."""
    window: str
    panel: str
    panel_border: str
    field: str
    """Background of fields and of bars."""
    field_border: str
    button: str
    button_hover: str
    text: str
    muted: str
    disabled: str
    accent: str
    accent_hover: str
    accent_soft: str
    """Background of a selection."""
    on_accent: str
    good: str
    good_soft: str
    """Background of text in `good`; the other `_soft` colours likewise."""
    warn: str
    warn_soft: str
    bad: str
    bad_soft: str
    grid: str
    train: str
    """The line of a training metric."""
    train_faint: str
    """The unsmoothed values of a training metric: little colour, so that the bold mean stands out from them."""
    validation: str
    idle: str
    """A strip at 0 %, apart from the panel."""
    busy: str
    """A strip at 100 %."""
    devices: tuple[str, ...]
    """In the order of the devices."""

    @classmethod
    def chosen(cls, name: str, colours: str, app: QApplication) -> Theme:
        """Return the theme `dark` or `light` in the colours `standard` or `strong`; for other names, as the desktop."""
        hints = app.styleHints()
        prefers_dark = hints.colorScheme() != Qt.ColorScheme.Light  # also if the desktop does not say what it is
        is_dark = name == "dark" if name in {"dark", "light"} else prefers_dark
        prefers_strong = bool(prefers_contrast(hints))
        is_strong = colours == "strong" if colours in {"standard", "strong"} else prefers_strong
        return {(each.is_dark, each.is_strong): each for each in THEMES}[is_dark, is_strong]

    @property
    def text_contrast(self) -> float:
        """The least contrast of texts: WCAG 2.2, success criterion 1.4.3, or 1.4.6 for strong contrast."""
        return 7.0 if self.is_strong else 4.5

    @property
    def mark_contrast(self) -> float:
        """The least contrast of borders, marks and lines: criterion 1.4.11, or more for strong contrast."""
        return 4.5 if self.is_strong else 3.0

    def device_colour(self, index: int) -> str:
        """Return the colour of the device in row `index`; the colours repeat after the last."""
        return self.devices[index % len(self.devices)]


_COLOURS = {
    "window": ("#14171b", "#eef1f5", "#000000", "#f4f6f9"),
    "panel": ("#1c2027", "#ffffff", "#0a0c10", "#ffffff"),
    "panel_border": ("#2c323b", "#d5dbe3", "#7c8794", "#636e7b"),
    "field": ("#12151a", "#f5f7fa", "#000000", "#ffffff"),
    "field_border": ("#6b7686", "#7d8896", "#8592a3", "#5a6572"),
    "button": ("#262c35", "#e9edf2", "#1f252e", "#e6eaef"),
    "button_hover": ("#303843", "#dce2ea", "#323b48", "#d3dae3"),
    "text": ("#e6eaf0", "#1b2129", "#ffffff", "#000000"),
    "muted": ("#98a2b0", "#58626f", "#d3d9e1", "#2f3740"),
    "disabled": ("#646d79", "#8b94a1", "#a7b0bb", "#4f5863"),
    "accent": ("#4d9bff", "#1a61c4", "#8cc4ff", "#0a3f8f"),
    "accent_hover": ("#74b2ff", "#154f9f", "#b5d9ff", "#062c66"),
    "accent_soft": ("#1b2f49", "#e3eefc", "#10294a", "#dcebff"),
    "on_accent": ("#08111d", "#ffffff", "#000000", "#ffffff"),
    "good": ("#34cb9a", "#0b7550", "#5ee3b4", "#00502f"),
    "good_soft": ("#123229", "#d9f2e8", "#06301f", "#d3f2e2"),
    "warn": ("#e8b53c", "#8a5a00", "#ffd166", "#5c3a00"),
    "warn_soft": ("#362b12", "#fbefd0", "#332500", "#ffefc2"),
    "bad": ("#ff7070", "#bd2b33", "#ffa3a3", "#8f0d18"),
    "bad_soft": ("#3d1e22", "#fbe1e2", "#3a0f14", "#ffe0e1"),
    "grid": ("#262b33", "#e8ecf1", "#3c4450", "#c3cbd5"),
    "train": ("#4d9bff", "#1f6fd6", "#7db8ff", "#0050c0"),
    "train_faint": ("#526d90", "#8496b0", "#5f7fa8", "#5f7699"),
    "validation": ("#ff9f45", "#d36a00", "#ffb060", "#aa4400"),
    "idle": ("#323a46", "#dfe5ec", "#717d8d", "#6b7684"),
    "busy": ("#b9d4f5", "#1c4f8f", "#ffffff", "#000a1f"),
    "devices": (ON_DARK, ON_LIGHT, STRONG_ON_DARK, STRONG_ON_LIGHT),
}
"""The colours of each of `THEMES`."""


def _themes() -> Iterator[Theme]:
    for at, name in enumerate(("dark", "light", "dark-strong", "light-strong")):
        colours: dict[str, Any] = {each: values[at] for each, values in _COLOURS.items()}
        yield Theme(name=name, is_dark=name.startswith("dark"), is_strong=name.endswith("strong"), **colours)


THEMES = DARK, LIGHT, STRONG_DARK, STRONG_LIGHT = tuple(_themes())


class _Look(QObject):
    """The look of the application."""

    changed = Signal()
    """There may be another theme or another size of text. Qt paints all widgets again by itself."""
    theme = DARK


look = _Look()


def current_theme() -> Theme:
    """Return the theme of the application. To be asked whenever something is painted."""
    return look.theme


def prefers_contrast(hints: QStyleHints) -> bool | None:
    """Return whether the desktop asks for strong contrast; None if this version of Qt, before 6.10, cannot tell."""
    if not hasattr(hints, "accessibility"):
        return None
    return bool(hints.accessibility().contrastPreference() == Qt.ContrastPreference.HighContrast)


def follow_desktop(app: QApplication, change: Callable[[], object]) -> None:
    """Call `change` when the desktop becomes dark or light, or asks for another contrast.

    Qt forgets a method of a widget that it deletes.
    """
    hints = app.styleHints()
    hints.colorSchemeChanged.connect(change)
    if hasattr(hints, "accessibility"):
        hints.accessibility().contrastPreferenceChanged.connect(change)


def apply(app: QApplication, theme: Theme) -> None:
    """Apply a theme, and the size of the text, to the whole application."""
    look.theme = theme
    sheet = stylesheet(theme)
    if app.styleSheet() != sheet:  # Qt re-styles all widgets for an equal sheet too
        set_palette(app, theme)
        app.setStyleSheet(sheet)
    look.changed.emit()


def set_palette(app: QApplication, theme: Theme) -> None:
    """Set the style and the palette of a theme; `apply` does so too, but before widgets exist it takes no time."""
    if app.style().name() not in {"fusion", ""}:  # a style sheet hides the name, and is set only after the style
        app.setStyle("Fusion")
    look.theme = theme
    app.setPalette(palette(theme))


def stylesheet(theme: Theme) -> str:
    """Return the style sheet in the colours of a theme and at the size of the text; its head lists its properties."""
    names = ("window", "strong") if theme.is_strong else ("window",)
    sheet = Template("".join((RESOURCES / "themes" / f"{name}.qss").read_text(encoding="utf-8") for name in names))
    monospace = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()
    icons, ground = (RESOURCES / "icons").as_posix(), "dark" if theme.is_dark else "light"
    return scaled_sheet(sheet.substitute(asdict(theme), icons=icons, ground=ground, monospace=monospace))


def palette(theme: Theme) -> QPalette:
    """Return the palette for everything that the style sheet does not cover."""
    result = QPalette()
    role = QPalette.ColorRole
    for target, colour in (
        (role.Window, theme.window),
        (role.WindowText, theme.text),
        (role.Base, theme.field),
        (role.AlternateBase, theme.panel),
        (role.Text, theme.text),
        (role.Button, theme.button),
        (role.ButtonText, theme.text),
        (role.BrightText, theme.bad),
        (role.ToolTipBase, theme.panel),
        (role.ToolTipText, theme.text),
        (role.PlaceholderText, theme.muted),
        (role.Highlight, theme.accent),
        (role.HighlightedText, theme.on_accent),
        (role.Link, theme.accent),
    ):
        result.setColor(target, QColor(colour))
    for target in (role.WindowText, role.Text, role.ButtonText):
        result.setColor(QPalette.ColorGroup.Disabled, target, QColor(theme.disabled))
    return result


def mark(widget: QWidget, **properties: object) -> None:
    """Set properties that the style sheet uses, and restyle the widget."""
    for name, value in properties.items():
        widget.setProperty(name, value)
    widget.style().unpolish(widget)
    widget.style().polish(widget)


def inset(box: QAbstractSpinBox) -> None:
    """Add a left margin to the number of a spin box, which Qt omits with a style sheet."""
    edit = box.findChild(QLineEdit)
    if edit is not None:
        edit.setTextMargins(9, 0, 0, 0)
