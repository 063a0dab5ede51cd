"""The dark and the light theme: colours, palette and style sheet."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFontDatabase, QPalette
from PySide6.QtWidgets import QLineEdit

import resources
from core.palette import ON_DARK, ON_LIGHT

from .text_size import scaled_sheet

if TYPE_CHECKING:
    from PySide6.QtWidgets import QAbstractSpinBox, QApplication, QWidget

RESOURCES = Path(resources.__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Named colours, `#rrggbb`. Texts have a contrast of at least 4.5 : 1 on their grounds, borders and marks 3 : 1."""

    name: str
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
    def current(cls, app: QApplication) -> Theme:
        """Return the theme of the desktop; dark if it states none."""
        return LIGHT if app.styleHints().colorScheme() == Qt.ColorScheme.Light else DARK

    @classmethod
    def named(cls, name: str, app: QApplication) -> Theme:
        """Return the theme `dark` or `light`; for every other name, that of the desktop."""
        return {"dark": DARK, "light": LIGHT}.get(name) or cls.current(app)

    def device_colour(self, index: int) -> str:
        """Return the colour of the device in row `index`; the colours repeat after the last."""
        return self.devices[index % len(self.devices)]


DARK = Theme(
    name="dark",
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


def apply(app: QApplication, theme: Theme) -> None:
    """Apply a theme to the whole application; do nothing if it has this theme already."""
    sheet = stylesheet(theme)
    if app.styleSheet() == sheet:  # Qt re-styles all widgets for an equal sheet too
        return
    set_palette(app, theme)
    app.setStyleSheet(sheet)


def set_palette(app: QApplication, theme: Theme) -> None:
    """Set the style and the palette of a theme; `apply` does so too, but before widgets exist it takes no time."""
    if app.style().name() != "fusion":
        app.setStyle("Fusion")
    app.setPalette(palette(theme))


def stylesheet(theme: Theme) -> str:
    """Return the style sheet in the colours of a theme and at the size of the text; its head lists its properties."""
    sheet = Template((RESOURCES / "themes" / "window.qss").read_text(encoding="utf-8"))
    monospace = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()
    icons = (RESOURCES / "icons").as_posix()
    return scaled_sheet(sheet.substitute(asdict(theme), icons=icons, monospace=monospace))


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
