"""The text on why two runs differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.comparison.measured_run import Reasons
from core.history.summary import setting_words
from core.language import tr
from core.text import one_line
from gui.style.formatting import DASH


def why_text(first: str, second: str, why: Reasons) -> list[str]:
    """Return the lines on what differs between two runs, which are named. Lines of texts begin with `+`, `-` or `@`."""
    lines = [tr("What differs between {first} and {second}:", first=first, second=second), ""]
    groups: tuple[tuple[str, Mapping[str, Sequence[object]]], ...] = (
        (tr("Settings"), why.settings), (tr("Packages"), why.packages), (tr("Devices"), why.devices),
        (tr("Commit"), {"": why.commits} if why.commits else {}),
    )  # fmt: skip
    for title, found in groups:
        if found:
            lines += [title, *(_pair(name, pair) for name, pair in found.items()), ""]
    if why.text:
        lines += [tr("Recipe or script"), *why.text]
    elif why.text_notice:
        lines += [why.text_notice]
    if len(lines) == 2:
        lines.append(tr("Nothing that was recorded differs."))
    return lines


def _pair(name: str, pair: Sequence[object]) -> str:
    one, other = (DASH if value is None else one_line(setting_words(name, value), 100) for value in pair)
    return f"    {name}: {one} → {other}" if name else f"    {one} → {other}"
