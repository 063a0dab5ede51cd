"""Format numbers, sizes and times for reading. A missing value is a dash, never 0."""

from __future__ import annotations

import math
import time

from core.language import tr, tr_noop
from core.text import BYTES_PER_GB, BYTES_PER_MB

DASH = "–"
DAY_S = 86400.0
MONTHS = (
    # Translators: short names of the months, as in "19 Nov 18:03".
    tr_noop("Jan"), tr_noop("Feb"), tr_noop("Mar"), tr_noop("Apr"), tr_noop("May"), tr_noop("Jun"), tr_noop("Jul"),
    tr_noop("Aug"), tr_noop("Sep"), tr_noop("Oct"), tr_noop("Nov"), tr_noop("Dec"),
)
LONG_MONTHS = (
    tr_noop("January"), tr_noop("February"), tr_noop("March"), tr_noop("April"), tr_noop("May"), tr_noop("June"),
    tr_noop("July"), tr_noop("August"), tr_noop("September"), tr_noop("October"), tr_noop("November"),
    tr_noop("December"),
)


def percent(value: float | None) -> str:
    """Return `82 %`."""
    return DASH if value is None else f"{value:.0f} %"


def gigabytes(value_bytes: float | None) -> str:
    """Return `9.1` or `512`, without the unit."""
    if value_bytes is None:
        return DASH
    value = value_bytes / BYTES_PER_GB
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"


def fine_gigabytes(value_bytes: float | None) -> str:
    """Return `9.1`, `0.04` or `0`, without the unit: with more digits for small values."""
    if not value_bytes:
        return DASH if value_bytes is None else "0"
    return f"{value_bytes / BYTES_PER_GB:.2f}" if value_bytes < BYTES_PER_GB else gigabytes(value_bytes)


def memory(used_bytes: float | None, total_bytes: float | None) -> str:
    """Return `9.1 / 24 GB`; an unknown total is left out."""
    if total_bytes is None:
        return DASH if used_bytes is None else f"{gigabytes(used_bytes)} GB"
    total = gigabytes(total_bytes).removesuffix(".0")
    return f"{gigabytes(used_bytes)} / {total} GB"


def memory_size(value_bytes: float | None) -> str:
    """Return `9.1 GB` or `340 MB`."""
    if value_bytes is None:
        return DASH
    if value_bytes < 1000 * BYTES_PER_MB:
        return f"{value_bytes / BYTES_PER_MB:.0f} MB"
    return f"{gigabytes(value_bytes)} GB"


def rate(samples_per_s: float) -> str:
    """Return `12 340 samples/s` or `0.8 samples/s`."""
    value = f"{samples_per_s:.1f}" if samples_per_s < 10 else number(samples_per_s, 1)
    return tr("{value} samples/s", value=value)


def step_rate(steps_per_s: float) -> str:
    """Return `12 steps/s`, `0.8 steps/s`, or `42 s a step` for slow steps."""
    if 0 < steps_per_s < 0.1:
        return tr("{seconds} s a step", seconds=number(1 / steps_per_s, 1))
    value = f"{steps_per_s:.1f}" if steps_per_s < 10 else number(steps_per_s, 1)
    return tr("{value} steps/s", value=value)


def duration(seconds: float) -> str:
    """Return `0:07`, `1:02:03` or `2 d 3 h`."""
    if seconds < DAY_S:
        return clock(seconds)
    return tr("{days} d {hours} h", days=int(seconds // DAY_S), hours=int(seconds % DAY_S // 3600))


def seconds(value_s: float) -> str:
    """Return `1.2 s`, `34 s` or `under 0.1 s`."""
    if value_s < 0.05:
        return tr("under 0.1 s")
    if value_s < 9.95:
        return tr("{seconds:.1f} s", seconds=value_s)
    return tr("{seconds} s", seconds=round(value_s))


def age(value_s: float | None) -> str:
    """Return an age as `12 s`, `3:52` or `2 d 3 h`."""
    if value_s is None:
        return DASH
    return tr("{seconds} s", seconds=round(max(value_s, 0))) if value_s < 60 else duration(value_s)


def moment(when: float, now: float) -> str:
    """Return `18:03` today, `19 Nov 18:03` before, `19 Nov 2024` long ago. Both times are unix seconds."""
    then, today = time.localtime(when), time.localtime(now)
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    month = tr(MONTHS[then.tm_mon - 1])  # `strftime` would name it in the language of the desktop
    if abs(now - when) < 300 * DAY_S:
        return tr("{day} {month} {time}", day=then.tm_mday, month=month, time=time.strftime("%H:%M", then))
    return tr("{day} {month} {year}", day=then.tm_mday, month=month, year=then.tm_year)


def day(when: float, now: float | None = None) -> str:
    """Return the day of a unix time: `23 November 2026`, without the year in that of `now`."""
    then = time.localtime(when)
    month = tr(LONG_MONTHS[then.tm_mon - 1])
    if now is not None and then.tm_year == time.localtime(now).tm_year:
        return tr("{day} {month}", day=then.tm_mday, month=month)
    return tr("{day} {month} {year}", day=then.tm_mday, month=month, year=then.tm_year)


def number(value: float, spacing: float) -> str:
    """Return a value with the decimal places that multiples of `spacing` need: `12 000`, `0.25`, `2e-05`."""
    if value and (abs(value) >= 1e9 or spacing < 1e-4):
        return f"{value:.4g}"
    places = places_for(spacing)
    rounded = round(value, places) + 0.0  # adding 0 makes -0 a plain 0
    # A thin space between thousands cannot be mistaken for a decimal mark.
    return f"{rounded:,.{places}f}".replace(",", "\u2009")


def setting_title(name: str) -> str:
    """Return the name of a recipe's setting as a label: `Hidden size` of `hidden_size`."""
    words = name.replace("_", " ").strip()
    return f"{words[:1].upper()}{words[1:]}" or name


def significant(value: float) -> str:
    """Return a number with three significant digits, zeros at its end included: `2.00`, `0.391`, `1.20e-05`."""
    return f"{value:#.3g}".removesuffix(".")


def places_for(spacing: float) -> int:
    """Return the number of decimal places that tell multiples of `spacing` apart."""
    return next((places for places in range(9) if math.isclose(round(spacing, places), spacing)), 9)


def clock(seconds: float, spacing_s: float = 1.0) -> str:
    """Return seconds as `0:07`, `12:30` or `1:02:03`, with the decimals that `spacing_s` needs."""
    places = places_for(spacing_s)
    sign, rest = ("-", -seconds) if seconds < 0 else ("", seconds)
    rest = round(rest, places)
    hours, minutes = int(rest // 3600), int(rest % 3600 // 60)
    tail = f"{rest % 60:0{3 + places if places else 2}.{places}f}"
    return f"{sign}{hours}:{minutes:02}:{tail}" if hours else f"{sign}{minutes}:{tail}"
