"""The units in which memory, and a disk, are told, by the command line, the window and the watch alike."""

from __future__ import annotations

BYTES_PER_GB = 2**30
"""As the makers of cards count: one sold with 24 GB has 24 times this."""
BYTES_PER_MB = 2**20


def size(memory_bytes: int | None) -> str:
    """Memory for people: `1.5 GB`, `64 MB`; `an unknown amount` without a reading."""
    if memory_bytes is None:
        return "an unknown amount"
    if memory_bytes >= BYTES_PER_GB:
        return f"{memory_bytes / BYTES_PER_GB:.1f} GB"
    return f"{memory_bytes / BYTES_PER_MB:.0f} MB"


def disk(size_bytes: int) -> str:
    """The same of a disk, where a little is told too: `340 kB`."""
    return size(size_bytes) if size_bytes >= BYTES_PER_MB else f"{-(-size_bytes // 1024)} kB"
