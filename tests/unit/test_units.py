"""Memory sizes as text, with the same units everywhere."""

from __future__ import annotations

import pytest

from core.text import BYTES_PER_GB, BYTES_PER_MB, size


@pytest.mark.parametrize(
    ("bytes_", "words"),
    [
        (None, "an unknown amount"),
        (0, "0 MB"),
        (64 * BYTES_PER_MB, "64 MB"),
        (10**9, "954 MB"),
        (24 * BYTES_PER_GB, "24.0 GB"),
    ],
)
def test_memory_size_is_formatted_in_binary_units(bytes_: int | None, words: str) -> None:
    assert size(bytes_) == words
