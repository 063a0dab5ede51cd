"""Lines at random that mix a bar and text: each value that is recorded is printed there, under that name."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest

from core.metrics.dialects.plain import ENGLISH
from core.metrics.reading import OF_VALIDATION, canonical
from core.metrics.text.log import LogReader

SEEDS = range(40)
LINES = 50
PHASES = ("", "", "train ", "val ", "Val. ", "test ", "best ")
NAMES = ("loss", "acc", "perplexity", "mIoU", "reward", "f1", "psnr", "grad_norm", "lr", "time", "step",
         "class accuracy",
         "l_pix", "temperature", "samples", "Instance Accuracy", "损失", "Verlust", "точность", "box loss")
JOINS = (" ", ", ", " | ", "; ", "\t", " - ", "  ")
SEPARATORS = (": ", "=", " ", " = ", ":", " is ")


def _grouped(number: float) -> tuple[str, set[float]]:
    whole = round(number * 100_000)
    text = f"{whole:,}"
    # a single group may have a decimal comma
    return text, {float(whole), float(text.replace(",", ".")) if text.count(",") == 1 else whole}


FORMATS: tuple[Callable[[float], tuple[str, set[float]]], ...] = (
    lambda number: (f"{number:.4f}", {round(number, 4)}),
    lambda number: (f"{number:.3e}", {float(f"{number:.3e}")}),
    lambda number: (f"{round(number * 50)}", {float(round(number * 50))}),
    lambda number: (f"{number:.2f}".replace(".", ","), {round(number, 2)}),
    lambda number: (f"{number:.3f}".replace(".", ","), {round(number, 3), float(f"{number:.3f}".replace(".", ""))}),
    _grouped,
    lambda number: (f"{number * 10:.1f}%", {round(number * 10, 1), round(number * 10, 1) / 100}),
    lambda number: (f"{number * 10:.2f}%", {round(number * 10, 2), round(number * 10, 2) / 100}),
    lambda number: (f"{number:.1f}K", {round(number, 1) * 1000}),
    lambda number: (f"tensor({number:.4f}, device='cuda:0')", {round(number, 4)}),
    lambda number: (f"tf.Tensor({number:.4f}, shape=(), dtype=float32)", {round(number, 4)}),
    lambda number: (f"[{number:.3f}]", {round(number, 3)}),
    lambda number: (f"[{number:.3f}, {number + 1:.3f}]", set()),
    lambda number: (f"{number:.2f},{number + 1:.2f}", set()),
    lambda number: (f"{number:.4f} ({number + 1:.4f})", {round(number, 4), round(number + 1, 4)}),
    lambda _: ("nan", {math.nan}),
    lambda _: ("-inf", {-math.inf}),
    lambda _: ("N/A", set()),
    lambda number: (f"-{number:.4f}", {-round(number, 4)}),
    lambda number: (f"{number:.3f} ± 0.01", {round(number, 3)}),
    lambda number: (f"{number:.3f} +/- 0.01", {round(number, 3)}),
    lambda number: (f"{number:.4f} (+0.01)", {round(number, 4)}),
    lambda number: (f"{number:.4f} *", {round(number, 4)}),
    lambda number: (f"{number + 0.01:.4f} -> {number:.4f}", {round(number, 4)}),
    lambda number: (f"{number + 0.01:.4f}→{number:.4f}", {round(number, 4)}),
    lambda number: (f"{number:.2f}/{number + 1:.2f}", set()),
    lambda number: (f"{round(number * 10)}/100 ({round(number * 10)}%)", {round(number * 10) / 100}),
    lambda number: (f"{number:.4f}s", set()),
    lambda number: (f"1.{round(number)}.3", set()),
)


def _bar(chance: Random) -> str:
    total = chance.randint(1, 2000)
    done = chance.randint(0, total)
    full = "█" * (10 * done // total)
    return chance.choice([
        "", f"{100 * done // total:3d}%|{full:10}| {done}/{total} [00:01<00:02, 19.90it/s]",
        f"Epoch {done}: {100 * done // total:3d}%|{full:10}| {done}/{total} [00:01<00:02, 1.25s/it]",
        f"{done}/{total} ━━━━━━━━━━━━━━━━━━━━ 1s 3ms/step", f"{done}it [00:10, 33.0it/s]",
    ])


def _line(chance: Random) -> tuple[str, list[tuple[str, set[float]]]]:
    """Return a line, and its fields: the program's names, and what their numbers may mean."""
    fields, texts = [], []
    for name in chance.sample(NAMES, chance.randint(1, 5)):
        phase = chance.choice(PHASES)
        text, values = chance.choice(FORMATS)(chance.uniform(0.01, 9))
        fields.append((f"{phase}{name}", values))
        texts.append(f"{phase}{name}{chance.choice(SEPARATORS)}{text}")
    return _bar(chance) + chance.choice(["", " "]) + chance.choice(JOINS).join(texts), fields


def _may_be(recorded: str, name: str) -> bool:
    """Return whether a recorded name is that of a printed one: its last word, and the phase that it has itself."""
    english = " ".join(ENGLISH.get(word.lower(), word) for word in name.replace("Val.", "val").split())
    ours, last = canonical(english), canonical(english).split("_")[-1]
    if last == "rate":
        return recorded == ours  # there is one of the training
    if english.split()[0] in {"val", "test", "best"}:
        phase = english.split()[0]
        prefixes = {"val": ("val_",), "test": ("val_", "test_"), "best": ("best_", "val_best_", "test_best_")}
        if not recorded.startswith(prefixes[phase]):
            return False
    elif english.split()[0] == "train" and recorded.startswith((OF_VALIDATION, "test_", "best_")):
        return False
    return recorded.endswith((ours, last)) or ours.endswith(recorded.removeprefix(OF_VALIDATION))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_value_is_recorded_that_is_not_printed_and_none_under_another_name(seed: int) -> None:
    chance, seen = Random(seed), 0
    for _ in range(LINES):
        line, fields = _line(chance)
        reader = LogReader()
        readings = [*reader.take(f"\r{line}\n".encode()), *reader.end()]
        for name, value in ((name, value) for reading in readings for name, value in reading.values.items()):
            seen += 1
            assert any(
                _may_be(name, printed) and any(_same(value, each) for each in values) for printed, values in fields
            ), f"{name}={value} of {line!r}"
    assert seen > LINES / 2


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-6) or (math.isnan(one) and math.isnan(other))
