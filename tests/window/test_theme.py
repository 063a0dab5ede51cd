"""Both themes can be read, and their colours told apart."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QCheckBox, QHeaderView, QLabel, QSpinBox

from gui.panels.memory.process_table import ASCENDING, DESCENDING, ProcessTable
from gui.style import theme as themes
from gui.style.theme import DARK, LIGHT, Theme
from gui.viewmodels.devices.process_rows import MEMORY, NAME

BOTH = pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)


@pytest.fixture
def undressed(qapp):
    """The application as it was before a test dressed it."""
    palette, sheet = qapp.palette(), qapp.styleSheet()
    yield qapp
    qapp.setStyleSheet(sheet)
    qapp.setPalette(palette)


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2.2, 1 to 21."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@BOTH
def test_every_text_can_be_read(theme: Theme) -> None:
    texts = ("text", "muted", "accent", "good", "warn", "bad")
    pairs = [(text, ground) for text in texts for ground in ("window", "panel", "field")]
    pairs += [("text", "button"), ("text", "button_hover"), ("bad", "button"), ("text", "accent_soft")]
    pairs += [("on_accent", "accent"), ("on_accent", "accent_hover")]
    pairs += [(tone, f"{tone}_soft") for tone in ("good", "warn", "bad", "accent")]
    low = {pair: contrast(getattr(theme, pair[0]), getattr(theme, pair[1])) for pair in pairs}
    assert {pair: ratio for pair, ratio in low.items() if ratio < 4.5} == {}


@BOTH
def test_every_line_stands_out_from_its_card(theme: Theme) -> None:
    lines = (*theme.devices, theme.train, theme.validation, theme.disabled, theme.accent)
    assert [line for line in lines if contrast(line, theme.panel) < 3] == []


@BOTH
def test_twelve_devices_have_colours_that_differ(theme: Theme) -> None:
    assert len(theme.devices) >= 12
    assert theme.device_colour(len(theme.devices)) == theme.device_colour(0)
    for one, other in itertools.combinations(map(QColor, theme.devices), 2):
        parts = [(a - b) ** 2 for a, b in zip(one.getRgb(), other.getRgb(), strict=True)]
        assert sum(parts) ** 0.5 > 50, (one.name(), other.name())


@BOTH
def test_the_sheet_is_complete_and_all_its_icons_exist(qapp, theme: Theme) -> None:
    sheet = themes.stylesheet(theme)
    assert "$" not in sheet
    icons = re.findall(r'url\("([^"]+)"\)', sheet)
    assert len(icons) >= 5
    assert [icon for icon in icons if not Path(icon).is_file()] == []


@BOTH
def test_a_tick_is_seen_in_its_box(qtbot, undressed, theme: Theme) -> None:
    themes.apply(undressed, theme)
    boxes = [QCheckBox(), QCheckBox()]
    for box in boxes:
        qtbot.addWidget(box)
    boxes[1].setChecked(True)
    empty, ticked = (colours(box.grab().toImage()) for box in boxes)
    assert theme.accent in ticked
    assert theme.accent not in empty
    assert theme.on_accent in ticked  # the tick itself: without an SVG reader it would be missing


def colours(image: QImage) -> set[str]:
    """All colours of an image."""
    return {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}


def test_titles_are_spaced_capitals(qtbot, undressed) -> None:
    themes.apply(undressed, DARK)
    label = QLabel("devices")
    label.setProperty("role", "title")
    qtbot.addWidget(label)
    label.ensurePolished()
    assert label.font().capitalization() == label.font().Capitalization.AllUppercase
    assert label.font().letterSpacing() > 0


def test_a_mark_is_worn_at_once(qtbot, undressed) -> None:
    themes.apply(undressed, DARK)
    label = QLabel("words")
    qtbot.addWidget(label)
    for tone in ("good", "bad"):
        themes.mark(label, tone=tone)
        assert label.palette().color(label.foregroundRole()).name() == getattr(DARK, tone)


def test_a_theme_is_applied_once_and_another_in_its_place(qtbot, undressed) -> None:
    themes.apply(undressed, DARK)
    style = undressed.style()
    themes.apply(undressed, DARK)
    assert undressed.style() is style, "nothing is styled again"
    themes.apply(undressed, LIGHT)
    label = QLabel("words")
    qtbot.addWidget(label)
    label.ensurePolished()
    assert label.palette().color(label.foregroundRole()).name() == LIGHT.text
    assert undressed.palette().window().color().name() == LIGHT.window


def test_a_spin_box_keeps_its_number_off_its_border(qtbot, undressed) -> None:
    themes.apply(undressed, DARK)
    box = QSpinBox()
    qtbot.addWidget(box)
    themes.inset(box)
    assert box.lineEdit().textMargins().left() > 5


def test_the_theme_follows_the_desktop() -> None:
    class Hints:
        def __init__(self, scheme: Qt.ColorScheme) -> None:
            self.colorScheme = lambda: scheme

    class App:
        def __init__(self, scheme: Qt.ColorScheme) -> None:
            self.styleHints = lambda: Hints(scheme)

    schemes = (Qt.ColorScheme.Light, Qt.ColorScheme.Dark, Qt.ColorScheme.Unknown)
    assert [Theme.current(App(scheme)).name for scheme in schemes] == ["light", "dark", "dark"]


def test_the_arrow_of_the_order_stands_beside_its_heading(qtbot, undressed) -> None:
    themes.apply(undressed, DARK)
    table = ProcessTable(DARK)
    qtbot.addWidget(table)
    table.resize(900, 200)
    table.show()
    header = table.horizontalHeader()
    for column in (MEMORY, NAME):
        table.sort_by(column)
        shown = heading(header, column)
        assert not ink(shown.copy(0, 0, shown.width(), 6)), "nothing stands above the words"
        assert table.horizontalHeaderItem(column).text()[-1] in {DESCENDING, ASCENDING}
        header.resizeSection(column, 2 * shown.width())
        assert ink(heading(header, column)) == ink(shown), "the words are whole"
    assert table.horizontalHeaderItem(MEMORY).text() == "Memory", "it was sorted by another since"


def heading(header: QHeaderView, column: int) -> QImage:
    """What is painted of a column's heading, but for the line below it."""
    left, width = header.sectionViewportPosition(column), header.sectionSize(column)
    return header.grab(QRect(left, 0, width, header.height() - 2)).toImage()


def ink(image: QImage) -> int:
    """How many pixels are not as the ground is."""
    ground = image.pixelColor(0, 0)
    return sum(image.pixelColor(x, y) != ground for x in range(image.width()) for y in range(image.height()))
