"""All themes: readable text, distinct colours, more contrast in the strong ones; the size of all text."""

from __future__ import annotations

import itertools
import re
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from pyqtgraph import PlotItem
from PySide6.QtCore import QObject, QRect, Qt, Signal
from PySide6.QtGui import QFont, QImage
from PySide6.QtWidgets import QCheckBox, QHeaderView, QLabel, QListWidget, QPushButton, QSpinBox

from gui.base import text_size
from gui.base import theme as themes
from gui.base.colours import faint
from gui.base.painting import outline
from gui.base.settings_file import SettingsFile
from gui.base.theme import DARK, LIGHT, STRONG_DARK, STRONG_LIGHT, THEMES, Theme, stylesheet
from gui.plots.items.strips import HeatStripsItem
from gui.widgets.table import ASCENDING, DESCENDING, Column, RowsTable
from gui.window.main_window import WindowState
from tests.support.colour_vision import SIGHTS, ciede2000, contrast, difference
from tests.support.tables import headings
from tests.window.clipping import clipped

pytestmark = pytest.mark.styled

ALL = pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)


@pytest.fixture
def unstyled_app(qapp):
    """The application; its palette and stylesheet are restored after the test."""
    palette, sheet = qapp.palette(), qapp.styleSheet()
    yield qapp
    qapp.setStyleSheet(sheet)
    qapp.setPalette(palette)


@ALL
def test_text_borders_marks_and_device_colours_have_enough_contrast(theme: Theme) -> None:
    tones = [field.name.removesuffix("_soft") for field in fields(theme) if field.name.endswith("_soft")]
    grounds = ("window", "panel", "field", "button", *(f"{tone}_soft" for tone in tones))
    pairs = [(text, ground) for text in ("text", "muted", *tones) for ground in grounds]
    pairs += [("text", "button_hover"), ("muted", "button_hover")]
    pairs += [("on_accent", "accent"), ("on_accent", "accent_hover"), ("train", "panel")]  # `now 0.39` at a line's end
    if not theme.is_strong:
        pairs += [("text", "panel_border")]  # a button that is pressed
    assert len(tones) == 4
    assert too_low(theme, pairs, theme.text_contrast) == {}
    tones = ("accent", "good", "warn", "bad", "muted")
    lines = ("field_border", "train", "train_faint", "validation", *tones)
    pairs = [(line, ground) for line in lines for ground in ("window", "panel") if (line, ground) != LINE_ON_WINDOW]
    pairs += [("field_border", "field"), ("accent", "field"), ("bad", "field"), ("muted", "field")]
    pairs += [(tone, "button") for tone in tones]  # a bar on its track
    if theme.is_strong:
        pairs += [(line, ground) for line in ("panel_border", "disabled") for ground in ("window", "panel")]
        pairs += [("disabled", "button"), ("idle", "panel"), ("busy", "panel")]
        pairs += [("field_border", "accent_soft"), ("field_border", "button")]
    assert too_low(theme, pairs, theme.mark_contrast) == {}
    assert [colour for colour in theme.devices if contrast(colour, theme.panel) < theme.mark_contrast] == []
    faint_ones = [faint(colour, theme) for colour in theme.devices]
    assert all(contrast(colour, theme.panel) >= 4.5 for colour in faint_ones) is theme.is_strong
    assert contrast(theme.idle, theme.busy) >= 4
    assert len(set(theme.devices)) >= 12  # how different they look is measured below
    assert theme.device_colour(len(theme.devices)) == theme.device_colour(0)


LINE_ON_WINDOW = ("train_faint", "window")
"""Lines are drawn on panels only; the others keep the contrast there too."""


def too_low(theme: Theme, pairs: list[tuple[str, str]], least: float) -> dict[tuple[str, str], float]:
    """Return the contrast of those pairs of roles that have less than `least`."""
    found = {pair: contrast(getattr(theme, pair[0]), getattr(theme, pair[1])) for pair in pairs}
    return {pair: ratio for pair, ratio in found.items() if ratio < least}


@ALL
def test_style_sheet_is_complete_its_tick_is_visible_and_grounds_have_outlines(
    hold, unstyled_app, theme: Theme
) -> None:
    themes.apply(unstyled_app, theme)
    boxes = [hold(QCheckBox()), hold(QCheckBox())]
    boxes[1].setChecked(True)
    empty, ticked = (colours(box.grab().toImage()) for box in boxes)
    assert theme.accent in ticked
    assert theme.accent not in empty
    assert theme.on_accent in ticked  # the tick itself, missing without an SVG reader
    button = hold(QPushButton("words"))
    edge = button.grab().toImage().pixelColor(1, button.height() // 2).name()
    assert edge == (theme.field_border if theme.is_strong else theme.button)
    pen = outline(theme.good)
    assert (pen.style() == Qt.PenStyle.SolidLine, pen.color().name() == theme.good) == (theme.is_strong,) * 2
    plot = PlotItem()
    strips = HeatStripsItem(plot)
    strips.recolour()
    strips.show_rows(np.array([[0.0, 100.0]]), np.zeros((1, 2), dtype=np.bool_), 0.0, 1.0)
    shown = [strips._image.pixelColor(x, 0) for x in range(2)]
    assert {each.alpha() for each in shown} == {255}, "no strip fades"
    if theme.is_strong:
        assert all(contrast(each.name(), theme.panel) >= theme.mark_contrast for each in shown)
    sheet = themes.stylesheet(theme)
    assert "$" not in sheet
    icons = re.findall(r'url\("([^"]+)"\)', sheet)
    assert len(icons) >= 5
    assert [icon for icon in icons if not Path(icon).is_file()] == []


def colours(image: QImage) -> set[str]:
    """Return all colours of an image."""
    return {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}


@pytest.mark.slow
def test_widgets_have_styles_of_roles_and_tones_and_a_theme_is_replaced_once(hold, unstyled_app, monkeypatch) -> None:
    themes.apply(unstyled_app, DARK)
    title, label, box = hold(QLabel("devices")), hold(QLabel("words")), hold(QSpinBox())
    title.setProperty("role", "title")
    title.ensurePolished()
    assert title.font().capitalization() == title.font().Capitalization.AllUppercase
    assert title.font().letterSpacing() > 0
    for tone in ("good", "bad"):
        themes.mark(label, tone=tone)
        assert label.palette().color(label.foregroundRole()).name() == getattr(DARK, tone), "at once"
    themes.inset(box)
    assert box.lineEdit().textMargins().left() > 5
    set_again = []  # would style all widgets once more than the style sheet does
    monkeypatch.setattr(type(unstyled_app), "setStyle", set_again.append)
    themes.apply(unstyled_app, DARK)
    themes.apply(unstyled_app, LIGHT)
    assert set_again == []
    label = hold(QLabel("words"))
    label.ensurePolished()
    assert label.palette().color(label.foregroundRole()).name() == LIGHT.text
    assert unstyled_app.palette().window().color().name() == LIGHT.window


class Hints:
    """What a desktop asks for, instead of Qt's style hints."""

    def __init__(self, scheme: Qt.ColorScheme, contrast: Qt.ContrastPreference | None) -> None:
        self.colorScheme = lambda: scheme
        if contrast is not None:  # Qt before 6.10 has none
            self.accessibility = lambda: SimpleNamespace(contrastPreference=lambda: contrast)

    def styleHints(self) -> Hints:  # noqa: N802 (Qt's name)
        return self


NO_WISH, HIGH = Qt.ContrastPreference.NoPreference, Qt.ContrastPreference.HighContrast


@pytest.mark.parametrize(
    ("name", "colours", "scheme", "contrast", "expected"),
    [
        ("desktop", "desktop", Qt.ColorScheme.Light, None, LIGHT),
        ("desktop", "desktop", Qt.ColorScheme.Dark, NO_WISH, DARK),
        ("desktop", "desktop", Qt.ColorScheme.Unknown, NO_WISH, DARK),
        ("desktop", "desktop", Qt.ColorScheme.Unknown, HIGH, STRONG_DARK),
        ("desktop", "desktop", Qt.ColorScheme.Light, HIGH, STRONG_LIGHT),
        ("dark", "desktop", Qt.ColorScheme.Light, HIGH, STRONG_DARK),
        ("dark", "standard", Qt.ColorScheme.Light, HIGH, DARK),
        ("light", "strong", Qt.ColorScheme.Dark, None, STRONG_LIGHT),
        ("sepia", "none", Qt.ColorScheme.Light, NO_WISH, LIGHT),
    ],
)
def test_theme_is_the_chosen_one_or_that_of_the_desktop(name, colours, scheme, contrast, expected) -> None:
    assert Theme.chosen(name, colours, Hints(scheme, contrast)) is expected


class Desktop(QObject):
    """A desktop that tells when it changes."""

    colorSchemeChanged, contrastPreferenceChanged = Signal(object), Signal(object)  # noqa: N815 (Qt's names)

    def styleHints(self) -> Desktop:  # noqa: N802 (Qt's name)
        return self

    def accessibility(self) -> Desktop:
        return self


def test_theme_follows_a_desktop_that_changes() -> None:
    desktop, changes = Desktop(), []
    themes.follow_desktop(desktop, lambda: changes.append(1))
    desktop.colorSchemeChanged.emit(Qt.ColorScheme.Light)
    desktop.contrastPreferenceChanged.emit(HIGH)
    assert len(changes) == 2


def test_sort_arrow_is_beside_heading_text(hold, unstyled_app) -> None:
    themes.apply(unstyled_app, DARK)
    table = RowsTable("table", "Table", [Column(each, title=each) for each in ("Name", "Memory")], sorted_by="Name")
    hold(table, 900, 200)
    header = table.horizontalHeader()
    for column in (1, 0):
        table.sort_by(column)
        shown = heading(header, column)
        assert not ink(shown.copy(0, 0, shown.width(), 6)), "nothing is painted above the text"
        assert headings(table)[column][-1] in {DESCENDING, ASCENDING}
        header.resizeSection(column, 2 * shown.width())
        assert ink(heading(header, column)) == ink(shown), "the text is not cut"
    assert headings(table)[1] == "Memory", "the arrow is removed when another column is sorted"


def heading(header: QHeaderView, column: int) -> QImage:
    """Return the painted heading of a column, without the line below it."""
    left, width = header.sectionViewportPosition(column), header.sectionSize(column)
    return header.grab(QRect(left, 0, width, header.height() - 2)).toImage()


def ink(image: QImage) -> int:
    """Return the number of pixels that differ from the background."""
    background = image.pixelColor(0, 0)
    return sum(image.pixelColor(x, y) != background for x in range(image.width()) for y in range(image.height()))


# -- colours of devices ----------------------------------------------------------------------------


FIRST = 8
"""As many devices as most machines have at most."""


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, 2.49, -0.001), (50, -2.49, 0.0011), 7.2195),
        ((50, 2.5, 0), (58, 24, 15), 19.4535),
        ((22.7233, 20.0904, -46.6940), (23.0331, 14.9730, -42.5619), 2.0373),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_difference_is_that_of_the_published_pairs(one, other, expected) -> None:
    assert ciede2000(one, other) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("sight", SIGHTS)
@ALL
def test_device_colours_can_be_told_apart(theme: Theme, sight: str) -> None:
    apart = {pair: difference(*pair, sight) for pair in itertools.combinations(theme.devices, 2)}
    first = {pair: value for pair, value in apart.items() if set(pair) <= set(theme.devices[:FIRST])}
    assert min(first.values()) >= 12, min(first, key=first.__getitem__)
    assert min(apart.values()) >= 11, min(apart, key=apart.__getitem__)


# -- the size of all text --------------------------------------------------------------------------


@pytest.fixture
def text(qapp):
    """The module; the desktop's font and the zoom are restored after the test."""
    font = QFont(qapp.font())
    yield text_size
    text_size.set_zoom(1.0)
    qapp.setFont(font)
    qapp.setStyleSheet("")


@pytest.mark.slow
def test_keys_change_size_next_window_keeps_it_and_font_of_desktop_enlarges_all_text(drive, text, qapp, qtbot) -> None:
    panel = drive()
    with qtbot.waitActive(panel.window):
        panel.window.activateWindow()
    runs = panel.window.findChild(QListWidget, "runList")
    height = runs.fontMetrics().height()
    for _ in range(3):
        qtbot.keyClick(panel.window, Qt.Key.Key_Plus, Qt.KeyboardModifier.ControlModifier)
    assert text.zoom() == 1.5
    assert runs.fontMetrics().height() == pytest.approx(1.5 * height, abs=2)
    panel.window.resize(1480, 1000)
    panel.until(lambda: not clipped(panel.window), "all text to be whole")
    qtbot.keyClick(panel.window, Qt.Key.Key_Minus, Qt.KeyboardModifier.ControlModifier)
    assert text.zoom() == 1.25
    panel.window.close()
    text.set_zoom(1.0)
    again = drive()
    assert text.zoom() == 1.25
    with qtbot.waitActive(again.window):
        again.window.activateWindow()
    qtbot.keyClick(again.window, Qt.Key.Key_0, Qt.KeyboardModifier.ControlModifier)
    assert text.zoom() == 1.0
    assert again.window.findChild(QListWidget, "runList").fontMetrics().height() == height
    names = ("stateLabel", "startButton", "frameworkBox", "runList")
    heights = lambda: [again.window.findChild(object, name).fontMetrics().height() for name in names]  # noqa: E731
    before, larger = heights(), QFont(qapp.font())
    larger.setPointSizeF(16)
    qapp.setFont(larger)
    qtbot.waitUntil(lambda: all(now > 1.4 * first for now, first in zip(heights(), before, strict=True)))
    assert text.scale() == pytest.approx(21 / 13, abs=0.05)


def test_size_of_text_is_limited_and_enlarges_lengths_but_no_thin_borders(text, parts) -> None:
    normal = stylesheet(DARK)
    text.set_zoom(2.0)
    double = stylesheet(DARK)
    assert "font-size: 13px" in normal
    assert "font-size: 26px" in double
    assert normal.count("border: 1px") == double.count("border: 1px")
    panels, services = parts
    for kept in ("", "large", "nan", "1e99", "-3"):
        SettingsFile().save({"window/text_zoom": kept})
        WindowState(services.window, panels, None, services.machine.root).restore_text_size()
        assert text.ZOOMS[0] <= text.zoom() <= text.ZOOMS[-1], kept


@pytest.mark.slow
def test_plots_grow_with_the_text_and_hold_the_guidance(assemble, text) -> None:
    panel = assemble("run", "start", "preferences")
    panel.window.resize(1280, 800)
    least = {name: plot.minimumHeight() for name, plot in panel.window.panels.plots.plots.items()}
    panel.window.controllers.preferences.set_text_zoom(2.0)
    plots = panel.window.panels.plots.plots
    assert {name: plot.minimumHeight() for name, plot in plots.items()} == {n: 2 * least[n] for n in least}
    steps = panel.window.panels.first_steps
    panel.until(lambda: steps.isVisible() and steps.height() >= steps.sizeHint().height(), "the whole guidance")
