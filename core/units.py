"""Format sizes of memory and files, and durations, for users."""

from __future__ import annotations

from core.language import tr

BYTES_PER_GB = 2**30
"""A GPU that is sold with 24 GB has 24 times this."""
BYTES_PER_MB = 2**20
HOUR_S, DAY_S = 3600, 86_400


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
