"""The page of a report: elements of HTML, its head, its colours in light and dark. It names no other file.

Every text is escaped, since names and logs of runs come from anywhere.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from core import language
from core.palette import ON_DARK, ON_LIGHT
from core.text import replace_control_characters

VOID = frozenset({"meta"})
"""Elements without an end tag."""


class Markup(str):
    """HTML. Any other text is escaped where it becomes part of an element."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Return a text as HTML that shows it; control characters, which HTML does not have, are shown as `?`."""
    return text if isinstance(text, Markup) else Markup(html.escape(replace_control_characters(text, keep="\n\t")))


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
    )


def fold(summary: str, *content: str, is_open: bool = False) -> Markup:
    """Return content that the reader can open; the empty text if there is none."""
    if not any(content):
        return Markup("")
    return element("details", element("summary", summary), *content, open="open" if is_open else "")


# -- the page -------------------------------------------------------------------------------------

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The browser loads nothing and executes nothing, whatever a name in the page might contain."""
STYLE = """
:root{color-scheme:light dark;--ground:#fff;--soft:#eef1f5;--text:#1b2129;--muted:#58626f;--edge:#d5dbe3;
--bad:#bd2b33;--warn:#8a5a00;$light}
@media (prefers-color-scheme:dark){:root{--ground:#14171b;--soft:#1c2027;--text:#e6eaf0;--muted:#98a2b0;
--edge:#2c323b;--bad:#ff7070;--warn:#e8b53c;$dark}}
body{margin:0 auto;max-width:76rem;padding:1.5rem;background:var(--ground);color:var(--text);
font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:0}h2{font-size:1.2rem;margin:2rem 0 .5rem}
p{margin:.4rem 0}.muted{color:var(--muted)}.bad{color:var(--bad)}.warn{color:var(--warn)}
.wide{overflow-x:auto;margin:.6rem 0}table{border-collapse:collapse}
caption{text-align:left;color:var(--muted);padding:.2rem 0}
th,td{text-align:left;vertical-align:top;padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--edge);
overflow-wrap:anywhere;min-width:6rem;white-space:pre-line}
thead th{white-space:nowrap}tbody th{font-weight:600;min-width:11rem}
details{margin:.5rem 0}summary{cursor:pointer}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,34rem),1fr));gap:1rem}
figure{margin:0;background:var(--soft);border-radius:8px;padding:.8rem}figcaption{font-weight:600}
svg{display:block;width:100%;height:auto}.grid line{stroke:var(--edge)}
.grid text{fill:var(--muted);font-size:12px}
.lines path{fill:none;stroke-width:1.5;stroke-linecap:round;stroke-linejoin:round;vector-effect:non-scaling-stroke}
.lines .dashed{stroke-dasharray:6 4}.lines .band{stroke:none;fill-opacity:.2}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.1rem 1rem;padding:0;margin:.4rem 0 0;font-size:.87rem}
.legend li{overflow-wrap:anywhere}
.key{display:inline-block;width:1.4rem;border-top:3px solid;vertical-align:middle}.key.dashed{border-top-style:dashed}
$lines
@media print{body{max-width:none}figure{break-inside:avoid}}
"""


def page(title: str, parts: Iterable[Markup]) -> bytes:
    """Return the whole file."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Markup(_style())),
    )
    body = element("body", element("main", *parts))
    document = element("html", head, body, lang=language.current().replace("_", "-"))
    return f"<!doctype html>\n{document}\n".encode("utf-8", "replace")


def section(title: str, *content: str) -> Markup:
    """Return a part with its heading; the empty text if it has no content."""
    return element("section", element("h2", title), *content) if any(content) else Markup("")


def _style() -> str:
    """Return the style sheet with the colours of curves as variables."""
    lines = "".join(
        f".c{number}{{stroke:var(--c{number});color:var(--c{number})}}.lines .b{number}{{fill:var(--c{number})}}"
        for number in range(len(ON_LIGHT))
    )
    text = STYLE.strip().replace("$lines", lines)
    for name, colours in (("$light", ON_LIGHT), ("$dark", ON_DARK)):
        text = text.replace(name, ";".join(f"--c{number}:{colour}" for number, colour in enumerate(colours)))
    return text
