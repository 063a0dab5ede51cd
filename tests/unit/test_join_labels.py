"""Names of devices in a sentence."""

from __future__ import annotations

import pytest

from core.text import join_labels


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([], ""),
        (["GPU 6", "GPU 7"], "GPU 6 and GPU 7"),
        (["GPU 0", "GPU 1", "GPU 2"], "GPU 0 to 2"),
        ([f"GPU {number}" for number in range(4, 12)], "GPU 4 to 11"),
        (["GPU 0", "GPU 1", "GPU 3"], "GPU 0, GPU 1 and GPU 3"),
        (["GPU 2", "GPU 1", "GPU 0"], "GPU 2, GPU 1 and GPU 0"),
        (["GPU 0", "GPU 1", "CPU 2"], "GPU 0, GPU 1 and CPU 2"),
        (["GPU-a", "GPU-b", "GPU-c"], "GPU-a, GPU-b and GPU-c"),
        (["GPU 0", "GPU 1", "GPU 999999999999999"], "GPU 0, GPU 1 and GPU 999999999999999"),  # of another user's ticket
    ],
)
def test_consecutive_devices_are_named_by_the_first_and_the_last(labels, words):
    assert join_labels(labels) == words
