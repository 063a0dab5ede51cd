"""Join names in a sentence, and make text from processes safe to show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.language import tr

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def join_names(names: Iterable[str], last: str = "and") -> str:
    """Return `A`, `A and B`, or `A, B and C`; the empty string for no names."""
    *first, final = [*names] or [""]
    if not first:
        return final
    pattern = tr("{first} or {final}") if last == "or" else tr("{first} and {final}")
    return pattern.format(first=tr(", ").join(first), final=final)


MAX_NAMES = 5
"""Names that a sentence lists; it counts the rest. A run can leave a thousand processes behind."""


def first_names(names: Sequence[str], limit: int = MAX_NAMES, more: str = "more") -> list[str]:
    """Return at most `limit` names and how many are left out: `A`, `B`, `3 more`."""
    left = len(names) - limit
    return [*names[:limit], f"{left} {more}"] if left > 0 else [*names]


def one_line(text: str, limit: int) -> str:
    """Return a text in one line of at most `limit` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def replace_control_characters(text: str, keep: str = "") -> str:
    """Return the text with `?` for control characters, except those in `keep`.

    A process chooses its own name and command line, so they may contain sequences that control a terminal.
    """
    return "".join(each if each.isprintable() or each in keep else "?" for each in text)
