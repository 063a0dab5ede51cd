"""ShapeCache: a line of a known shape is read as it is when parsed in full."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

import pytest

from core.metrics.dialects.registry import statement_of
from core.metrics.text.log import LogReader
from core.metrics.text.shapes import MAX_SHAPES, ShapeCache
from tests.support import printed
from tests.unit.test_metrics_dialects import NOT_READ, PLACES, READ

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.metrics.dialects.registry import Statement

DIGITS = re.compile(r"\d+")
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)", re.IGNORECASE)
FORMS = (
    "{0}", "{0}", "0", "00", "007", "-{0}", "{0}.0", "{0}.25", "0.{0}", "-0.{0}", ".5", "5.", "0.000", "-0.0", "1e-3",
    "{0}e-05", "1.5e1", "2.5e+00", "1E+5", "1e300", "1e999", "nan", "NaN", "-inf", "inf", "10/100", "5/0", "{0}%",
    "1,234", "16,384.5", "9007199254740993", "123456789012345678901", "1790000000.5", "4000000000", "1.2.3", "3k",
    "1_000", "12:30", "0x1f", "true", "x", "", "[{0}/{0}]", "({0})", "tensor({0}.5)", "1e", "{0} %", "{0}it", "²", "٣",
)  # fmt: skip
"""Replacements for a number; {0} is a random number."""
LINES = [
    *READ, *NOT_READ, *PLACES,
    *[line for text in printed.LOGS.values() for line in re.split(r"[\r\n\x08]+", text) if line.strip()],
    "step 12 loss 0.123456 lr 1e-3",
    "acc 5/10 loss 0.5", "Accuracy: 44.7%, Avg loss: 2.153298", "epoch 10.0 step 3.0 loss 1", "loss 07 step 08",
    '{"step": 10.0, "loss": 1.50e+00, "time": 1790000000.5, "epoch": 2}', "{'loss': 012}", '{"loss": -0, "step": 7}',
    "100%|####| 1.50k/3.00k [00:01<00:01, 12.4it/s, loss=0.5, acc=81%]", "loss: 0.5 [1/0] 3 of 4",
    "2026-01-02 10:11:07,045 - INFO - [rank0] step=10/20 loss=0.5 val_loss=-0.25 f1: 3e-05 acc@5 0.7 top-1 0.2",
    "loss 1 2 3 4 5 6 7 8 9 acc 1 2 3 4 5 6 7 8 9", "loss_1: 3 loss_2: 4 layer1/loss: 5", "ppl 1.0 1.0 1.0 loss 1.0",
]  # fmt: skip


def line_variants() -> Iterator[str]:
    """Thousands of lines: each line with other digits of the same length and with other numbers."""
    rng = random.Random(0)
    for line in LINES:
        yield line
        for _ in range(3):
            yield DIGITS.sub(lambda digits: str(rng.randrange(10 ** len(digits[0]))).zfill(len(digits[0])), line)
        for _ in range(3):
            yield DIGITS.sub(lambda digits: "".join(rng.choices("01258", k=len(digits[0]))), line)
        for _ in range(7):
            changed = NUMBER.sub(lambda number: _other_number(number[0], rng), line)
            yield changed
            yield from (DIGITS.sub(lambda digits: _same_length(digits[0], rng), changed) for _ in range(2))


def _other_number(number: str, rng: random.Random) -> str:
    return rng.choice(FORMS).format(rng.randrange(1000)) if rng.random() < 0.4 else number


def _same_length(digits: str, rng: random.Random) -> str:
    return "".join(rng.choice("0123456789") for _ in digits) if digits.isascii() else digits


CORPUS = list(line_variants())


@pytest.mark.slow
def test_known_shape_gives_the_same_statement_as_full_parsing() -> None:
    shapes, rng = ShapeCache(), random.Random(1)
    full = {line: repr(statement_of(line.strip())) for line in CORPUS}
    assert len(full) > 3000
    for _ in range(2):
        rng.shuffle(CORPUS)
        for line in CORPUS:
            assert repr(shapes.statement_of(line.strip())) == full[line], line
    assert sum(learned is not None for learned in shapes._templates.values()) > 500


@pytest.mark.slow
def test_log_reads_the_same_with_and_without_shape_cache() -> None:
    rng = random.Random(2)
    ends = ("\n", "\n", "\n", "\r\n", "\r", "\x1b[0m\n", "\b" * 20)
    text = "".join(
        ("\x1b[32m" if rng.random() < 0.1 else "") + line + rng.choice(ends) for line in rng.choices(CORPUS, k=4000)
    )
    data = text.encode()
    with_shapes, without = LogReader(), LogReader(parse=statement_of)
    for begin in range(0, len(data), 100_000):
        piece = data[begin : begin + 100_000]
        assert repr(with_shapes.take(piece)) == repr(without.take(piece))
    assert repr(with_shapes.end()) == repr(without.end())


@pytest.mark.parametrize(
    "line",
    [
        "step {n} loss {x:.6f} lr 1e-3",
        "iter {n}: loss {x:.4f}, time {y:.2f}ms, mfu {y:.2f}%",
        "2026-01-02 10:11:12,345 - INFO - Epoch [1/2], Step [{n}/60000], Loss: {x:.4f}",
        "{{'loss': {x:.4f}, 'grad_norm': {y:.3f}, 'learning_rate': 1e-05, 'epoch': {x:.2f}}}",
        "Epoch 1:  10%|█▌   | {n}/20000 [00:10<00:20, {y:.2f}it/s, loss={x:.3f}]",
        "Test set: Average loss: {x:.4f}, Accuracy: {n}/10000 ({y:.0f}%)",
        "{n} some words that no one reads, error {x:.3f} of it",
    ],
)
def test_repeated_lines_are_rarely_parsed_in_full(line: str) -> None:
    parsed = []

    def parse(text: str) -> Statement:
        parsed.append(text)
        return statement_of(text)

    shapes, rng = ShapeCache(parse), random.Random(3)
    for n in range(1000, 3000):
        shapes.statement_of(line.format(n=n, x=0.1 + rng.random(), y=50 + 40 * rng.random()))
    assert len(parsed) < 200


def test_shapes_that_never_repeat_are_forgotten() -> None:
    shapes = ShapeCache(lambda text: statement_of("") if "other" in text else statement_of(text))
    for number in range(MAX_SHAPES + 500):
        shapes.statement_of(f"other {'x' * (number % 97)}{'y' * (number // 97)} 1")
        shapes.statement_of(f"other {'x' * (number % 97)}{'y' * (number // 97)} 1")
    assert len(shapes._templates) <= MAX_SHAPES
    assert len(shapes._seen_once) <= MAX_SHAPES
    for loss in ("0.5", "0.25", "0.75", "-0.5", "nan", "0.5"):
        assert repr(shapes.statement_of(f"loss {loss}")) == repr(statement_of(f"loss {loss}"))


def test_lines_that_are_too_long_or_have_too_many_numbers_are_parsed_in_full() -> None:
    for text in ("loss 0.5 " + "x" * 3000, "loss 0.5 " * 60, "loss nan", ""):
        shapes = ShapeCache()
        assert [repr(shapes.statement_of(text.strip())) for _ in range(3)] == [repr(statement_of(text.strip()))] * 3
        assert not shapes._templates
