"""Join names and phrases, make text safe to show; format sizes and durations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import reduce

from core.language import join, tr, tr_noop


def join_names(names: Iterable[str], last: str = "and") -> str:
    """Return `A`, `A and B`, or `A, B and C`; the empty string for no names."""
    *first, final = [*names] or [""]
    if not first:
        return final
    listed = reduce(lambda names, name: tr("{names}, {name}", names=names, name=name), first)
    pattern = tr_noop("{first} or {final}") if last == "or" else tr_noop("{first} and {final}")
    return tr(pattern, first=listed, final=final)


def enumerated(names: Iterable[str]) -> str:
    """Return the first of these names, and how many others there are, with semicolons: names may have commas."""
    return join(first_names(list(names)), "; ")


def join_phrases(phrases: Iterable[str]) -> str:
    """Return phrases in a row, with commas."""
    return join(phrases, tr_noop(", "))


def as_sentence(phrase: str) -> str:
    """Return a phrase with a capital letter and a full stop."""
    return tr("{phrase}.", phrase=capital(phrase))


def capital(phrase: str) -> str:
    return f"{phrase[:1].upper()}{phrase[1:]}"


MAX_NAMES = 5
"""Names that a sentence lists; it counts the rest. A run can leave a thousand processes behind."""
MORE = tr_noop("{count} more")


def first_names(names: Sequence[str], limit: int = MAX_NAMES, more: str = MORE) -> list[str]:
    """Return at most `limit` names and how many are left out: `A`, `B`, `3 more`."""
    left = len(names) - limit
    return [*names[:limit], tr(more, count=left)] if left > 0 else [*names]


def one_line(text: str, limit: int) -> str:
    """Return a text in one line of at most `limit` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def short(value: object) -> str:
    """Return a field for people: four digits of a number, `-` for None."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value) if value is not None else "-"


SPACES = "\u2009\u202f\xa0"
"""Spaces between the thousands of a number, and before its unit, which are no printable characters for Python."""


def replace_control_characters(text: str, keep: str = "") -> str:
    """Return the text with `?` for control characters, except those in `keep` and spaces that numbers have.

    A process chooses its own name and command line, so they may contain sequences that control a terminal.
    """
    if text.isprintable():
        return text
    keep += SPACES
    return "".join(each if each.isprintable() or each in keep else "?" for each in text)


BYTES_PER_GB = 2**30
"""A GPU that is sold with 24 GB has 24 times this."""
BYTES_PER_MB = 2**20
HOUR_S, DAY_S = 3600, 86_400


SECRET_NAME = re.compile(  # of a variable or argument
    r"secret|passw(or)?d|passphrase|credential|(api|access|auth)_?(key|token)|(^|_)(key|token|auth|pat)(_|$)",
    re.IGNORECASE,
)
SECRET_VALUE = re.compile(r"://[^/\s:@]{0,200}:[^/\s@]{1,200}@")
"""A URL with a password."""


def size(memory_bytes: int | None) -> str:
    """Return a size of memory, such as `1.5 GB` or `64 MB`; `an unknown amount` for None."""
    if memory_bytes is None:
        return tr("an unknown amount")
    if memory_bytes >= BYTES_PER_GB:
        return f"{memory_bytes / BYTES_PER_GB:.1f} GB"
    return f"{memory_bytes / BYTES_PER_MB:.0f} MB"


def disk(size_bytes: int) -> str:
    """Return a size on disk, where kilobytes matter too: `340 kB`."""
    return size(size_bytes) if size_bytes >= BYTES_PER_MB else tr("{value} kB", value=-(-size_bytes // 1024))


def duration(value_s: float) -> str:
    """Return `under 0.1 s`, `0.3 s`, `12 s`, `3 min 5 s`, `3 h 10 min` or `2 d 3 h`."""
    if value_s < 0.05:
        return tr("under 0.1 s")
    if value_s < 9.95:
        return tr("{seconds:.1f} s", seconds=value_s)
    whole = round(value_s)
    if whole < 100:
        return tr("{seconds} s", seconds=whole)
    if whole < HOUR_S:
        return tr("{minutes} min {seconds} s", minutes=whole // 60, seconds=whole % 60)
    if whole < DAY_S:
        return tr("{hours} h {minutes} min", hours=whole // HOUR_S, minutes=whole % HOUR_S // 60)
    return tr("{days} d {hours} h", days=whole // DAY_S, hours=whole % DAY_S // HOUR_S)
