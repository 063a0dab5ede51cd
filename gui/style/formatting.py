"""Numbers as people read them; a missing one is a dash, never 0."""

from __future__ import annotations

import math
import time

from core.units import BYTES_PER_GB

DASH = "–"
DAY_S = 86400.0


def percent(value: float | None) -> str:
    """`82 %`."""
    return DASH if value is None else f"{value:.0f} %"


def gigabytes(value_bytes: float | None) -> str:
    """`9.1`, `24`, `512`: without its unit."""
    if value_bytes is None:
        return DASH
    value = value_bytes / BYTES_PER_GB
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"


def fine_gigabytes(value_bytes: float | None) -> str:
    """`9.1`, `0.04`, `0`: the same, for what is often small."""
    if not value_bytes:
        return DASH if value_bytes is None else "0"
    return f"{value_bytes / BYTES_PER_GB:.2f}" if value_bytes < BYTES_PER_GB else gigabytes(value_bytes)


def memory(used_bytes: float | None, total_bytes: float | None) -> str:
    """`9.1 / 24 GB`; a total that is not known is left out."""
    if total_bytes is None:
        return DASH if used_bytes is None else f"{gigabytes(used_bytes)} GB"
    total = gigabytes(total_bytes).removesuffix(".0")
    return f"{gigabytes(used_bytes)} / {total} GB"


def rate(samples_per_s: float) -> str:
    """`12 340 samples/s`, `0.8 samples/s`."""
    value = f"{samples_per_s:.1f}" if samples_per_s < 10 else number(samples_per_s, 1)
    return f"{value} samples/s"


def step_rate(steps_per_s: float) -> str:
    """`12 steps/s`, `0.8 steps/s`; below one in ten seconds, `42 s a step`."""
    if 0 < steps_per_s < 0.1:
        return f"{number(1 / steps_per_s, 1)} s a step"
    value = f"{steps_per_s:.1f}" if steps_per_s < 10 else number(steps_per_s, 1)
    return f"{value} steps/s"


def duration(seconds: float) -> str:
    """`0:07`, `3:52`, `1:02:03`, `2 d 3 h`."""
    if seconds < DAY_S:
        return clock(seconds)
    return f"{int(seconds // DAY_S)} d {int(seconds % DAY_S // 3600)} h"


def seconds(value_s: float) -> str:
    """`1.2 s`, `34 s`, `under 0.1 s`."""
    if value_s < 0.05:
        return "under 0.1 s"
    return f"{value_s:.1f} s" if value_s < 9.95 else f"{value_s:.0f} s"


def age(value_s: float | None) -> str:
    """How long ago something began: `12 s`, `3:52`, `2 d 3 h`."""
    if value_s is None:
        return DASH
    return f"{max(value_s, 0):.0f} s" if value_s < 60 else duration(value_s)


def moment(when: float, now: float) -> str:
    """`18:03` today, `19 Nov 18:03` before, `19 Nov 2024` long before. Both are unix seconds."""
    then, today = time.localtime(when), time.localtime(now)
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    if abs(now - when) < 300 * DAY_S:
        return f"{then.tm_mday} {time.strftime('%b %H:%M', then)}"
    return f"{then.tm_mday} {time.strftime('%b %Y', then)}"


def one_line(text: str, most: int) -> str:
    """A text, a command line say, in one line of at most so many characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def number(value: float, spacing: float) -> str:
    """A value with as many places as its neighbours at `spacing` need: `12 000`, `0.25`, `2e-05`."""
    if value and (abs(value) >= 1e9 or spacing < 1e-4):
        return f"{value:.4g}"
    places = places_for(spacing)
    rounded = round(value, places) + 0.0  # adding 0 makes -0 a plain 0
    # The thin space groups thousands without being taken for a decimal mark.
    return f"{rounded:,.{places}f}".replace(",", "\u2009")


def places_for(spacing: float) -> int:
    """How many decimal places tell multiples of `spacing` apart."""
    return next((places for places in range(9) if math.isclose(round(spacing, places), spacing)), 9)


def clock(seconds: float, spacing_s: float = 1.0) -> str:
    """Seconds as `0:07`, `12:30`, `1:02:03`; with tenths where neighbours are closer than a second."""
    places = places_for(spacing_s)
    sign, rest = ("-", -seconds) if seconds < 0 else ("", seconds)
    rest = round(rest, places)
    hours, minutes = int(rest // 3600), int(rest % 3600 // 60)
    tail = f"{rest % 60:0{3 + places if places else 2}.{places}f}"
    return f"{sign}{hours}:{minutes:02}:{tail}" if hours else f"{sign}{minutes}:{tail}"
