"""The dark and the light theme, each also with strong contrast: colours, palette and style sheet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template

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
        is_dark = name == "dark" if name in {"dark", "light"} else _prefers_dark(app.styleHints())
        is_strong = (
            colours == "strong" if colours in {"standard", "strong"} else bool(prefers_contrast(app.styleHints()))
        )
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


DARK = Theme(
    name="dark",
    is_dark=True,
    window="#14171b",
    panel="#1c2027",
    panel_border="#2c323b",
    field="#12151a",
    field_border="#6b7686",
    button="#262c35",
    button_hover="#303843",
    text="#e6eaf0",
    muted="#98a2b0",
    disabled="#646d79",
    accent="#4d9bff",
    accent_hover="#74b2ff",
    accent_soft="#1b2f49",
    on_accent="#08111d",
    good="#34cb9a",
    good_soft="#123229",
    warn="#e8b53c",
    warn_soft="#362b12",
    bad="#ff7070",
    bad_soft="#3d1e22",
    grid="#262b33",
    train="#4d9bff",
    train_faint="#526d90",
    validation="#ff9f45",
    idle="#323a46",
    busy="#b9d4f5",
    devices=ON_DARK,
)

LIGHT = Theme(
    name="light",
    is_dark=False,
    window="#eef1f5",
    panel="#ffffff",
    panel_border="#d5dbe3",
    field="#f5f7fa",
    field_border="#7d8896",
    button="#e9edf2",
    button_hover="#dce2ea",
    text="#1b2129",
    muted="#58626f",
    disabled="#8b94a1",
    accent="#1a61c4",
    accent_hover="#154f9f",
    accent_soft="#e3eefc",
    on_accent="#ffffff",
    good="#0b7550",
    good_soft="#d9f2e8",
    warn="#8a5a00",
    warn_soft="#fbefd0",
    bad="#bd2b33",
    bad_soft="#fbe1e2",
    grid="#e8ecf1",
    train="#1f6fd6",
    train_faint="#8496b0",
    validation="#d36a00",
    idle="#dfe5ec",
    busy="#1c4f8f",
    devices=ON_LIGHT,
)

STRONG_DARK = Theme(
    name="dark-strong",
    is_dark=True,
    is_strong=True,
    window="#000000",
    panel="#0a0c10",
    panel_border="#7c8794",
    field="#000000",
    field_border="#8592a3",
    button="#1f252e",
    button_hover="#323b48",
    text="#ffffff",
    muted="#d3d9e1",
    disabled="#a7b0bb",
    accent="#8cc4ff",
    accent_hover="#b5d9ff",
    accent_soft="#10294a",
    on_accent="#000000",
    good="#5ee3b4",
    good_soft="#06301f",
    warn="#ffd166",
    warn_soft="#332500",
    bad="#ffa3a3",
    bad_soft="#3a0f14",
    grid="#3c4450",
    train="#7db8ff",
    train_faint="#5f7fa8",
    validation="#ffb060",
    idle="#717d8d",
    busy="#ffffff",
    devices=STRONG_ON_DARK,
)

STRONG_LIGHT = Theme(
    name="light-strong",
    is_dark=False,
    is_strong=True,
    window="#f4f6f9",
    panel="#ffffff",
    panel_border="#636e7b",
    field="#ffffff",
    field_border="#5a6572",
    button="#e6eaef",
    button_hover="#d3dae3",
    text="#000000",
    muted="#2f3740",
    disabled="#4f5863",
    accent="#0a3f8f",
    accent_hover="#062c66",
    accent_soft="#dcebff",
    on_accent="#ffffff",
    good="#00502f",
    good_soft="#d3f2e2",
    warn="#5c3a00",
    warn_soft="#ffefc2",
    bad="#8f0d18",
    bad_soft="#ffe0e1",
    grid="#c3cbd5",
    train="#0050c0",
    train_faint="#5f7699",
    validation="#aa4400",
    idle="#6b7684",
    busy="#000a1f",
    devices=STRONG_ON_LIGHT,
)
THEMES = (DARK, LIGHT, STRONG_DARK, STRONG_LIGHT)


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


def _prefers_dark(hints: QStyleHints) -> bool:
    """Return whether the desktop is dark, or does not say what it is."""
    return bool(hints.colorScheme() != Qt.ColorScheme.Light)


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
