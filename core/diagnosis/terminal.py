"""What a terminal would show of a text: cursor movements, deleted lines, colours."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

MAX_LINE = 2000
"""Maximum characters of a line in the window: a screen of longer lines would take too long to paint."""
MAX_CHUNKS = 250
"""Maximum changes of style in a line; later ones are ignored."""
SCREEN = 60
"""Number of last lines that can be overwritten, for nested progress bars and live tables."""
TAB = 8
CUT = " …"
BREAKS = "\u2028\u2029\ufdd0\ufdd1"
"""Characters that Qt takes for the end of a line or block."""
CONTROL = re.compile(
    r"\x1b\[(?P<numbers>[0-?]{0,200})[ -/]{0,9}(?P<final>[@-~])"  # CSI: colours, moves, erasing
    r"|\x1b[\]PX^_][^\x07\x1b\n]{0,4000}(?:\x07|\x1b\\)"  # strings for the terminal: titles, the ends of links
    r"|\x1b[ -/]{0,9}[0-Z\\^-~]?"
    rf"|[\x00-\x1f\x7f-\x9f{BREAKS}]"
)
SPECIAL = re.compile(rf"[\x00-\x1f\x7f-\x9f{BREAKS}]")
UNFINISHED = re.compile(r"\x1b(?:\[[0-?]{0,200}[ -/]{0,9}|[\]PX^_][^\x07\x1b\n]{0,4000}\x1b?|[ -/]{0,9})\Z")
"""An incomplete escape sequence at the end of a piece."""

Rgb = tuple[int, int, int]
Colour = int | Rgb | None
"""An index of the 256-colour palette, a tuple (red, green, blue) of 0 to 255, or None for the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The look of characters, set by escape sequences (SGR, ECMA-48 8.3.117)."""

    foreground: Colour = None
    background: Colour = None
    bold: bool = False
    faint: bool = False
    italic: bool = False
    underlined: bool = False
    inverse: bool = False


PLAIN = Style()
_SWITCHES: dict[int, dict[str, bool]] = {
    1: {"bold": True}, 2: {"faint": True}, 3: {"italic": True}, 4: {"underlined": True}, 7: {"inverse": True},
    21: {"underlined": True}, 22: {"bold": False, "faint": False}, 23: {"italic": False}, 24: {"underlined": False},
    27: {"inverse": False},
}


@lru_cache(maxsize=1024)
def restyled(style: Style, numbers: str) -> Style:
    """Return a style after an escape sequence with these numbers, such as `1;31`; unknown numbers are ignored."""
    codes = [int(part) if part.isdigit() else 0 for part in re.split("[;:]", numbers)]
    while codes:
        code = codes.pop(0)
        if code == 0:
            style = PLAIN
        elif code in _SWITCHES:
            style = replace(style, **_SWITCHES[code])
        elif 30 <= code <= 37 or 90 <= code <= 97:
            style = replace(style, foreground=code - 30 if code < 90 else code - 82)
        elif 40 <= code <= 47 or 100 <= code <= 107:
            style = replace(style, background=code - 40 if code < 100 else code - 92)
        elif code in {38, 48}:
            colour = _extended(codes)
            style = replace(style, foreground=colour) if code == 38 else replace(style, background=colour)
        elif code == 39:
            style = replace(style, foreground=None)
        elif code == 49:
            style = replace(style, background=None)
    return style


def _extended(codes: list[int]) -> Colour:
    """Remove and return the colour after 38 or 48: `5;N` of the palette, or `2;R;G;B`."""
    kind = codes.pop(0) if codes else 0
    if kind == 5 and codes:
        return min(codes.pop(0), 255)
    if kind == 2 and len(codes) >= 3:
        red, green, blue = (min(code, 255) for code in codes[:3])
        del codes[:3]
        return red, green, blue
    codes.clear()
    return None


class TerminalLine:
    """One line: chunks of text, each with one style."""

    __slots__ = ("chunks", "limit", "size")

    def __init__(self, limit: int) -> None:
        self.chunks: list[tuple[str, Style]] = []
        self.limit, self.size = limit, 0

    @property
    def text(self) -> str:
        """The text without styles."""
        return "".join(text for text, _ in self.chunks)

    def write(self, column: int, text: str, style: Style) -> None:
        """Overwrite from a column on; text beyond the limit is dropped."""
        if column >= self.limit and self.size != self.limit:  # a line that is just full is not marked as cut yet
            return
        if column + len(text) > self.limit:
            text = text[: max(self.limit - column, 0)] + CUT
        if column == 0 and len(text) >= self.size:
            self.chunks, self.size = [(text, style)], len(text)
            return
        after = self._part(column + len(text), self.size)
        if column != self.size:
            self.chunks = self._part(0, column)
            self._add(" " * (column - min(self.size, column)), PLAIN)
        self._add(text, style)
        for chunk in after:
            self._add(*chunk)
        self.size = max(self.size, column + len(text))

    def erase(self, begin: int, end: int) -> None:
        """Replace columns by blanks, or cut the line if it ends there."""
        if begin < self.size:
            after = self._part(end, self.size)
            self.chunks = self._part(0, begin)
            self.size = begin
            if after:
                self.write(begin, " " * (end - begin), PLAIN)
                for text, style in after:
                    self.write(self.size, text, style)

    def _add(self, text: str, style: Style) -> None:
        if not text:
            return
        if self.chunks and (self.chunks[-1][1] == style or len(self.chunks) >= MAX_CHUNKS):
            self.chunks[-1] = (self.chunks[-1][0] + text, self.chunks[-1][1])
        else:
            self.chunks.append((text, style))

    def _part(self, begin: int, end: int) -> list[tuple[str, Style]]:
        """Return the chunks between two columns."""
        found, at = [], 0
        if begin >= end:
            return []
        for text, style in self.chunks:
            kept = text[max(begin - at, 0) : max(end - at, 0)]
            if kept:
                found.append((kept, style))
            at += len(text)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of the screen."""

    replaced: int
    """Number of last lines that `lines` replaces."""
    lines: tuple[TerminalLine, ...]


class Terminal:
    """Takes the output of a program in pieces of any size. The last line may be incomplete."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._screen = [TerminalLine(max_line)]
        self._row, self._column = 0, 0
        self._style = PLAIN
        self._changed = 0
        """Index of the first changed line."""
        self._rest = ""
        self._moves: dict[str, Callable[[int], None]] = {
            "A": lambda count: self._move_to(self._row - count, self._column),
            "B": lambda count: self._move_to(min(self._row + count, len(self._screen) - 1), self._column),
            "C": lambda count: self._move_to(self._row, self._column + count),
            "D": lambda count: self._move_to(self._row, self._column - count),
            "E": lambda count: self._move_to(min(self._row + count, len(self._screen) - 1), 0),
            "F": lambda count: self._move_to(self._row - count, 0),
            "G": lambda count: self._move_to(self._row, count - 1),
        }

    def feed(self, text: str) -> Change:
        """Print a text and return what changes on the screen."""
        text = self._rest + text
        unfinished = UNFINISHED.search(text)
        self._rest = text[unfinished.start() :] if unfinished else ""
        before = self._changed = len(self._screen)
        for number, part in enumerate(text[: len(text) - len(self._rest)].split("\n")):
            if number:
                self._begin_line()
            if SPECIAL.search(part):
                self._interpret(part)
            elif part:
                self._write(part)
        change = Change(replaced=before - self._changed, lines=tuple(self._screen[self._changed :]))
        self._drop_old_lines()
        return change

    @property
    def open_lines(self) -> int:
        """Number of last lines that the program goes on with: the one that it is in, and those below."""
        return len(self._screen) - self._row

    def _interpret(self, text: str) -> None:
        at = 0
        for found in CONTROL.finditer(text):
            if found.start() > at:
                self._write(text[at : found.start()])
            at = found.end()
            self._execute(found)
        if at < len(text):
            self._write(text[at:])

    def _begin_line(self) -> None:
        self._row, self._column = self._row + 1, 0
        if self._row == len(self._screen):
            self._screen.append(TerminalLine(self._max_line))

    def _write(self, text: str) -> None:
        self._screen[self._row].write(self._column, text, self._style)
        self._column += len(text)
        self._changed = min(self._changed, self._row)

    def _execute(self, found: re.Match[str]) -> None:
        match found[0]:
            case "\r":
                self._column = 0
            case "\b":
                self._column = max(self._column - 1, 0)
            case "\t":
                self._write(" " * (TAB - self._column % TAB))
            case _ if found["final"]:
                self._sequence(found["final"], found["numbers"])

    def _sequence(self, final: str, numbers: str) -> None:
        if final == "m":
            self._style = restyled(self._style, numbers)
            return
        digits = numbers.partition(";")[0][:5]
        number = int(digits) if digits.isdecimal() else 0
        if final == "K":
            self._erase_line(number)
        elif final == "J" and number == 0:
            self._erase_line(0)
            for line in self._screen[self._row + 1 :]:
                line.erase(0, line.size)
        elif final in self._moves:
            self._moves[final](max(number, 1))

    def _erase_line(self, which: int) -> None:
        line = self._screen[self._row]
        begin = 0 if which else self._column
        line.erase(begin, min(self._column + 1, line.size) if which == 1 else line.size)
        self._changed = min(self._changed, self._row)

    def _move_to(self, row: int, column: int) -> None:
        self._row, self._column = max(row, 0), max(column, 0)

    def _drop_old_lines(self) -> None:
        """Drop the lines that have left the screen."""
        excess = len(self._screen) - SCREEN
        if excess > 0:
            del self._screen[:excess]
            self._row = max(self._row - excess, 0)
