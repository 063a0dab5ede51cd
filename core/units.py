"""The units in which memory is told, by the command line, the window and the watch alike."""

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
