"""Text is joined, and fitted to the columns of a terminal; names of devices and sizes of memory in words."""

import pytest

from core.devices.names import join_labels
from core.table import columns, cut_to_columns, wrap
from core.text import BYTES_PER_GB, BYTES_PER_MB, as_sentence, join_names, size


def test_names_are_joined():
    assert [join_names("abcd"[:count]) for count in range(5)] == ["", "a", "a and b", "a, b and c", "a, b, c and d"]
    assert join_names(["a", "{b}", "c"], "or") == "a, {b} or c"
    assert as_sentence("first step after 2 s") == "First step after 2 s."


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [
        ("train", 9, "train"),
        ("train", 3, "tra"),
        ("训练中", 6, "训练中"),
        ("训练中", 5, "训练"),
        ("a训", 2, "a"),
        ("训", 0, ""),
    ],
)
def test_a_text_is_cut_to_columns(text, limit, cut):
    assert cut_to_columns(text, limit) == cut
    assert columns(cut) <= limit


@pytest.mark.parametrize(
    ("text", "limit", "lines"),
    [
        ("", 10, [""]),
        ("a folder of runs", 10, ["a folder", "of runs"]),
        ("a\nfolder  of", 20, ["a\nfolder  of"]),
        ("far-too-long-a-word here", 8, ["far-too-long-a-word", "here"]),
        ("保存检查点并结束。", 8, ["保存检查", "点并结", "束。"]),  # a full stop begins no line
        ("默认：auto（很少）", 10, ["默认：auto", "（很少）"]),
        ("用 `resume` 继续", 12, ["用 `resume`", "继续"]),
    ],
)
def test_a_text_is_wrapped_by_columns(text, limit, lines):
    assert wrap(text, limit) == lines


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
