"""Format sizes of memory and files for users."""

from __future__ import annotations

from core.language import tr

BYTES_PER_GB = 2**30
"""A GPU that is sold with 24 GB has 24 times this."""
BYTES_PER_MB = 2**20


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
