"""Arrays that grow: large ones are outside numpy's huge pages, and are used, kept and loaded as small ones are."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from core.series import min_max_tree
from core.series.min_max_tree import GrowableArray

SMAPS = Path("/proc/self/smaps")


@pytest.mark.parametrize("huge_from", [1 << 22, 1000])
def test_array_keeps_its_numbers_and_earlier_views_while_it_grows(huge_from: int, monkeypatch) -> None:
    monkeypatch.setattr(min_max_tree, "HUGE_PAGES_BYTES", huge_from)
    numbers, grown, views = np.random.default_rng(0).random(5000), GrowableArray(), []
    for first in range(0, 5000, 70):
        grown.extend(numbers[first : first + 70])
        views.append(grown.array)
    np.testing.assert_array_equal(grown.array, numbers)
    for view in views:
        np.testing.assert_array_equal(view, numbers[: len(view)])
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(grown, protocol=5, buffer_callback=buffers.append)
    assert sum(buffer.raw().nbytes for buffer in buffers) == numbers.nbytes
    loaded = pickle.loads(data, buffers=[bytes(buffer.raw()) for buffer in buffers])
    loaded.extend(numbers[:10])
    np.testing.assert_array_equal(loaded.array, [*numbers, *numbers[:10]])
    grown.truncate(100)
    grown.extend(numbers[:3])
    np.testing.assert_array_equal(grown.array, [*numbers[:100], *numbers[:3]])


@pytest.mark.skipif(not SMAPS.exists(), reason="this system does not say how memory is mapped")
def test_large_array_asks_for_no_huge_pages() -> None:
    large, plain = GrowableArray(), np.zeros(1_000_000)
    large.extend(np.ones(600_000))
    large.extend(np.ones(1))
    if "hg" not in memory_flags(plain):
        pytest.skip("numpy asks for no huge pages on this system")
    assert "hg" not in memory_flags(large.array)


def memory_flags(numbers: np.ndarray) -> list[str]:
    """The flags of the mapping that an array is in."""
    address, inside = numbers.ctypes.data + numbers.nbytes // 2, False
    for line in SMAPS.read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(found[1], 16) <= address < int(found[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return line.split()[1:]
    raise AssertionError("the array is in no mapping")
