"""Elements of HTML. Every text is escaped, since names and logs of runs come from anywhere."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from core.text import replace_control_characters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SPACES = "\n\t\u2009\xa0"
"""Spaces that are no printable characters, among them the one between thousands."""
VOID = frozenset({"meta"})
"""Elements without an end tag."""


class Markup(str):
    """HTML. Any other text is escaped where it becomes part of an element."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Return a text as HTML that shows it; control characters, which HTML does not have, are shown as `?`."""
    return text if isinstance(text, Markup) else Markup(html.escape(replace_control_characters(text, keep=SPACES)))


def element(name: str, /, *content: str, **attributes: str) -> Markup:
    """Return an element. In names of attributes, `_` stands for `-`, and one at the end is left out: `class_`."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"' for key, value in attributes.items() if value
    )
    if name in VOID:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{''.join(map(escaped, content))}</{name}>")


def joined(parts: Iterable[str]) -> Markup:
    """Return parts in a row."""
    return Markup("".join(map(escaped, parts)))


def table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Return a table whose first column names its rows; the empty text if there are no rows."""
    lines = [
        element("tr", element("th", first, scope="row"), *(element("td", cell) for cell in cells))
        for first, *cells in rows
    ]
    if not lines:
        return Markup("")
    head = element("tr", *(element("th", heading, scope="col") for heading in headings))
    # The frame scrolls, so that a wide table does not widen the page; with a keyboard, too.
    return element(
        "div",
        element("table", element("caption", caption), element("thead", head), element("tbody", *lines)),
        class_="wide", tabindex="0", role="region", aria_label=caption,
    )  # fmt: skip


def fold(summary: str, *content: str, is_open: bool = False) -> Markup:
    """Return content that the reader can open; the empty text if there is none."""
    if not any(content):
        return Markup("")
    return element("details", element("summary", summary), *content, open="open" if is_open else "")
