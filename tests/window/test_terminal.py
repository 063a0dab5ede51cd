"""What a terminal would show: lines that are overwritten, styles, and legible colours."""

from __future__ import annotations

import random

import pytest
from PySide6.QtGui import QColor

from gui.base.colours import contrast, legible
from gui.base.theme import THEMES, look
from gui.features.log.terminal import (
    BASE,
    CUT,
    MAX_LINE,
    PLAIN,
    SCREEN,
    UNKNOWN,
    Style,
    Terminal,
    char_format,
    readable,
    restyled,
    rgb,
)

TQDM_NESTED = (
    "epochs:   0%|          | 0/2\n"
    "steps:   0%|          | 0/9\x1b[A"
    "\n\rsteps:  50%|#####     | 4/9\x1b[A"
    "\repochs:  50%|#####     | 1/2"
    "\n\rsteps: 100%|##########| 9/9\x1b[A\n\x1b[A\n"
)


def printed(*pieces: str) -> list[str]:
    """Return the lines that a terminal shows after these pieces."""
    terminal, shown = Terminal(), [""]
    for piece in pieces:
        change = terminal.feed(piece)
        del shown[len(shown) - change.replaced :]
        shown += [line.text for line in change.lines]
    return shown


# -- terminal lines ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (" 10%\r 20%\r 30%", [" 30%"]),
        ("done\r\nnext\r\n", ["done", "next", ""]),
        ("long line\rshort", ["shortline"]),
        ("long line\r\x1b[Kshort", ["short"]),
        ("1/9 [..]\b\b\b\b\b\b\b\b2/9 [#.]", ["2/9 [#.]"]),
        ("\x1b[31mred\x1b[0m and \x00plain\x07", ["red and plain"]),
        ("\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\x1b[?25l\x1b(B.", ["link."]),
        ("a\tb", ["a       b"]),
        ("kept\x1b[2K", [""]),
        ("\x1b[5Cfar", ["     far"]),
        (TQDM_NESTED, ["epochs:  50%|#####     | 1/2", "steps: 100%|##########| 9/9"]),
        ("one\ntwo\nthree\x1b[2A\rONE\x1b[J", ["ONE", "", ""]),
        ("a\u2028b", ["ab"]),
    ],
)
def test_control_sequences_change_lines_as_in_a_terminal(text, lines):
    assert printed(text) == lines
    assert printed(*text) == lines, "the same lines when fed one character at a time"


def test_feed_returns_only_changed_lines():
    terminal = Terminal()
    terminal.feed("one\ntwo\nthr")
    change = terminal.feed("ee\nfour")
    assert (change.replaced, [line.text for line in change.lines]) == (1, ["three", "four"])


def test_lines_scrolled_off_screen_cannot_be_overwritten():
    text = "".join(f"{number}\n" for number in range(2 * SCREEN))
    assert printed(text, "\x1b[99999Atop") == [f"{n}" if n != SCREEN + 1 else "top" for n in range(2 * SCREEN)] + [""]


def test_overlong_line_is_cut():
    lines = printed(*["x" * 10_000] * 30)
    assert lines == ["x" * MAX_LINE + CUT]


def test_escape_sequences_set_styles():
    terminal = Terminal()
    text = "\x1b[1;31mA\x1b[22;4mB\x1b[0mC\x1b[38;5;208;48;2;1;2;3mD\x1b[39;49mE\x1b[91;103mF\x1b[mG"
    chunks = terminal.feed(text).lines[0].chunks
    assert chunks == [
        ("A", Style(foreground=1, bold=True)),
        ("B", Style(foreground=1, underlined=True)),
        ("C", PLAIN),
        ("D", Style(foreground=208, background=(1, 2, 3))),
        ("E", PLAIN),
        ("F", Style(foreground=9, background=11)),
        ("G", PLAIN),
    ]


@pytest.mark.parametrize("numbers", ["38", "38;5", "38;2;1;2", "9999", ";;;", "<=>?", "48;7;1"])
def test_unknown_style_codes_are_ignored(numbers):
    assert restyled(PLAIN, numbers) == PLAIN


def test_overwriting_coloured_text_keeps_colour_of_the_rest():
    terminal = Terminal()
    assert terminal.feed("\x1b[32mgreen\x1b[0m\r12").lines[0].chunks == [("12", PLAIN), ("een", Style(foreground=2))]


def test_binary_data_becomes_ascii_and_non_latin_text_is_kept():
    binary = random.Random(0).randbytes(9999).decode(errors="replace")
    assert not binary.replace(UNKNOWN, "").isascii()
    assert readable(binary).replace(UNKNOWN, "").isascii()
    for text in ("日本語\ufffd", "損失" * 20 + "\ufffd\ufffd\ufffd"):
        assert readable(text) == text


# -- colours -------------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_every_terminal_colour_has_enough_contrast(theme):
    look.theme = theme
    panel = QColor(theme.panel).getRgb()[:3]
    for number in range(256):
        ink = char_format(Style(foreground=number)).foreground().color().getRgb()[:3]
        assert contrast(ink, panel) >= theme.text_contrast, number
        on_ground = char_format(Style(background=number))
        ink, ground = on_ground.foreground().color().getRgb()[:3], on_ground.background().color().getRgb()[:3]
        best = max(contrast(pole, ground) for pole in ((0, 0, 0), (255, 255, 255)))  # a middle grey allows no 7 : 1
        assert contrast(ink, ground) >= min(theme.text_contrast, best), number


def test_legible_colours_are_unchanged():
    assert rgb(None) is None
    assert rgb(9) == BASE[9]
    assert rgb(16 + 36 * 5) == (255, 0, 0)
    assert rgb(255) == (238, 238, 238)
    assert legible((255, 255, 255), (0, 0, 0), 4.5) == (255, 255, 255)
    assert legible((10, 10, 10), (0, 0, 0), 4.5) != (10, 10, 10)
