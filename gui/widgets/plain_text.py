"""Labels and tooltips that show data as they are. Qt would take some texts for HTML and open the files named in it.

Names of processes, runs, metrics and devices come from programs and from other users. `tests/architecture` checks that
no other module makes a label, writes HTML, or sets a computed tooltip without `verbatim`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase
from PySide6.QtGui import Qt as GuiQt  # has the functions on rich text
from PySide6.QtWidgets import QLabel, QWidget

MAX_CHARACTERS = 4000
"""Maximum characters of a tooltip: a command line may be megabytes, and Qt would lay out all of it."""
LONG_WORD, BREAK = re.compile(r"[A-Za-z0-9_.\u00c0-\u052f]{40}(?=[A-Za-z0-9_.\u00c0-\u052f])"), "\u200b"
"""What Qt would not break, and the character of no width at which it does. It would be copied with the text."""
AnyWidget = TypeVar("AnyWidget", bound=QWidget)
GAP = "&nbsp;&nbsp;&nbsp; "


def verbatim(text: str) -> str:
    """Return what to give to `setToolTip` so that Qt shows this text as it is, cut at `MAX_CHARACTERS`.

    Qt decides with `mightBeRichText` whether a tooltip is HTML. A text that it takes for HTML is escaped.
    """
    shown = text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"
    # In an unfinished comment or tag, Qt looks at all of the text: at most the characters kept above.
    return GuiQt.convertFromPlainText(shown) if GuiQt.mightBeRichText(shown) else shown


def menu_text(text: str) -> str:
    """Return a text for a menu that shows `&` instead of underlining the letter after it."""
    return text.replace("&", "&&")


def without_mnemonic(text: str) -> str:
    """Return the text of an action without its mnemonic: `File` of `&File` and of `File(&F)`, as Chinese has it."""
    return re.sub(r"\(&\w\)|&(?=\w)", "", text)


def title_text(text: str) -> str:
    """Return a text for the title of a window; Qt would leave out a single `[*]`."""
    return text.replace("[*]", "[*][*]")


def named(widget: AnyWidget, name: str = "", spoken: str = "", tip: str = "", **properties: object) -> AnyWidget:
    """Give a widget its object name, what a screen reader says, its tooltip, and properties for the style sheet.

    Return the widget. An empty text changes nothing.
    """
    if name:
        widget.setObjectName(name)
    if spoken:
        widget.setAccessibleName(spoken)
    if tip:
        widget.setToolTip(verbatim(tip))
    for each, value in properties.items():
        widget.setProperty(each, value)
    return widget


class PlainLabel(QLabel):
    """A label that never interprets its text."""

    def __init__(
        self, text: str = "", *, name: str = "", role: str = "", wraps: bool = False, selectable: bool = False
    ) -> None:
        """`role`: how the style sheet shows it; `wraps`: a text that is too long gets more lines.

        `selectable`: the mouse can select the text.
        """
        super().__init__()
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setText(text)
        self.setWordWrap(wraps)
        if selectable:
            self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        named(self, name, role=role)

    def show_text(self, text: str) -> None:
        """Show a text; the empty string hides the label."""
        self.setText(text)
        self.setVisible(bool(text))


def breakable(text: str) -> str:
    """Let long names without a space be broken, which would make the whole window wider."""
    return LONG_WORD.sub(rf"\g<0>{BREAK}", text)


def bold_label(text: str) -> PlainLabel:
    """Return the heading of a group of fields."""
    label = PlainLabel(text, role="small")
    label.setStyleSheet("font-weight: bold;")
    return label


def monospaced(label: PlainLabel) -> None:
    """Show a label in the font for code."""
    family = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()
    label.setStyleSheet(f'font-family: "{family}";')


class Span(NamedTuple):
    """A text in a colour."""

    text: str
    colour: str = ""
    """`#rrggbb`; the empty string for the colour of the label."""


Row = tuple[Sequence[Span], Sequence[Span]]
"""A name, and the number that is aligned right beside it."""


class ColouredLabel(QLabel):
    """A label in several colours; the texts are not interpreted."""

    def __init__(self) -> None:
        super().__init__()
        self.setTextFormat(Qt.TextFormat.RichText)

    def show_groups(self, groups: Iterable[Sequence[Span]]) -> None:
        """Show groups of spans beside each other."""
        self.setText(GAP.join(map(_html, groups)))

    def show_table(self, headings: Iterable[Sequence[Span]], rows: Sequence[Row], *, columns: int) -> None:
        """Show headings, one per line, and below them rows of a name and a number, in columns from top to bottom."""
        above = "".join(f"<div>{_html(heading)}</div>" for heading in headings)
        height = -(-len(rows) // columns)
        lines = "".join(
            f"<tr>{''.join(map(_cells, range(columns), rows[line::height]))}</tr>" for line in range(height)
        )
        self.setText(f'{above}<table cellspacing="0" cellpadding="0">{lines}</table>' if rows else above)


def _cells(column: int, row: Row) -> str:
    name, number = map(_html, row)
    gap = "padding-left:24px" if column else ""
    return f'<td style="{gap}">{name}</td><td align="right" style="padding-left:12px">{number}</td>'


def _html(spans: Sequence[Span]) -> str:
    from html import escape  # with its table of entities, it takes time at the start of the window

    colours = (f" color:{escape(each.colour)}" if each.colour else "" for each in spans)
    return "".join(
        f'<span style="white-space:pre;{colour}">{escape(each.text)}</span>'
        for colour, each in zip(colours, spans, strict=True)
    )
