"""Split the bytes of a log into lines, wherever the reads are cut."""

import random

import pytest

from core.metrics.text.printed_lines import LIMIT, WORDS, PrintedLine, PrintedLines, holds


def lines(data: bytes, *, pieces: int = 1) -> list[PrintedLine]:
    """Return all lines of `data`, which is read in equal pieces."""
    reader, size = PrintedLines(all_of_them=True), -(-len(data) // pieces)
    taken = [line for begin in range(0, len(data), size) for line in reader.take(data[begin : begin + size])]
    return [*taken, *reader.end()]


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        (b"one\ntwo\r\nthree", ["one", "two", "three"]),
        (b"\x1b[1m\x1b[32mloss\x1b[0m: \x1b]0;title\x070.5\x1b[K\n", ["loss: 0.5"]),
        (b"loss: 0.5 \xff\xfe\x00\x01 end\n", ["loss: 0.5 \ufffd\ufffd end"]),
        ("größer\n".encode(), ["größer"]),
        (b"\n\r\n   \n\r   \r", []),
        (b"12%\x08\x08\x0813%\n", ["13%"]),
        (b"x\x08\x08\x08\x08y\n", ["y"]),
        (b"[=====>.........] loss: 0.5" + b"\x08" * 20 + b" 1/5 \n", ["[=====> 1/5 ....] loss: 0.5"]),
    ],
)
def test_control_characters_are_removed_from_lines(data: bytes, texts: list[str]) -> None:
    for pieces in (1, 2, 3, len(data)):
        assert [line.text for line in lines(data, pieces=pieces)] == texts


def test_redrawn_lines_are_distinguished_from_final_lines() -> None:
    data = b"\r1/3\r2/3\r3/3\nnext\r" + b"\x08" * 20 + b"more" + b"\x08" * 20 + b"last\r\n"
    expected = [("1/3", True), ("2/3", True), ("3/3", False), ("next", True), ("more", True), ("last", False)]
    for pieces in (1, 2, 3, 7, len(data)):
        assert [(line.text, line.redrawn) for line in lines(data, pieces=pieces)] == expected


def test_endless_lines_backspaces_and_carriage_returns_use_little_memory() -> None:
    reader = PrintedLines()
    for _ in range(1000):
        assert list(reader.take(b"loss: 0.5 " * 1000)) == []
        assert len(reader._rest) <= LIMIT + 32
    long, after = reader.take(b"\nloss: 0.25\n")
    assert LIMIT - 10 < len(long.text) <= LIMIT
    assert after.text == "loss: 0.25"
    for piece in (b"\x08" * 100_000, b"\r" * 100_000, b"\x08\r" * 50_000):
        assert list(reader.take(b"loss: 1.0" + piece)) == []
        assert len(reader._rest) <= LIMIT + 32
        assert [line.text for line in reader.take(b"loss: 2.0\n")] == ["loss: 1.0", "loss: 2.0"]


def test_only_lines_that_may_hold_metrics_are_returned() -> None:
    chance = random.Random(0)
    words = [word.decode() for word in WORDS]
    noise = "".join(chance.choices("abcdefghij klmnopq 0123456789 ./-:", k=200_000))
    parts = [noise[at : at + 97] for at in range(0, len(noise), 97)]
    for at in range(0, len(parts), 9):
        word = words[at // 9 % len(words)]
        parts[at] = parts[at][:40] + (word.upper() if at % 2 else word) + parts[at][40:]
    expected = [part.strip() for part in parts if holds(part.encode())]
    data = "\n".join(parts).encode() + b"\n"
    for size in (len(data), 65536, 1000):
        reader = PrintedLines()
        found = [line.text for begin in range(0, len(data), size) for line in reader.take(data[begin : begin + size])]
        assert found == expected
    assert len(expected) < len(parts) / 2


def test_random_bytes_give_no_control_characters() -> None:
    chance = random.Random(1)
    data = chance.randbytes(300_000)
    reader = PrintedLines(all_of_them=True)
    text = "".join(line.text for line in (*reader.take(data), *reader.end()))
    assert not [character for character in text if ord(character) < 32 and character != "\t"]
