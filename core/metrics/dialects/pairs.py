"""Names and numbers in a line of text: `loss: 0.123`, `train_loss=0.3`, `iter 10: loss 4.2, time 12ms`.

A number is a metric's if it follows a word that is known for one, or any name and "=" or ":" beside such. Prose,
files' names, versions, addresses, dates and settings are left alone: where it is in doubt, nothing is read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from core.metrics.common.names import MEANS, TRAIN, VALIDATION, canonical, is_counter
from core.metrics.common.reading import Reading
from core.metrics.dialects.counters import StepPosition, step_position
from core.metrics.dialects.metrics import FILE, NUMBER, number, rank

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = re.compile(
    r"\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?:Z|[-+]\d\d:?\d\d)?|\d\d?/\d\d?/\d{2,4}"
    r"|(?<![\d:])\d{1,3}:\d\d(?::\d\d)?(?:[.,]\d+)?(?![\d:])|\d{1,9}\.\d{1,9}\.\d[\w.]*"
)
"""Dates, times of day and spans of time, versions and addresses: no values, and in the way of them."""
PAIR = re.compile(
    rf"(?<![\w@/.\\-])(?P<name>[a-z_][\w@/.\-]{{0,63}})(?P<sep>\s{{0,8}}[=:]\s{{0,16}}|\s{{1,16}})(?:tensor\()?"
    rf"(?P<number>{NUMBER})(?P<rest>\s?%|\s?/\s?(?P<of>\d+))?(?=$|[\s,;|)\]}}'\"(]|\.(?:\s|$))",
    re.IGNORECASE,
)
WORD = re.compile(r"([A-Za-z][\w]*)[ ]$")
WORDS = re.compile(
    r"(?:learning|grad|gradient|best|total|final|top|batch|epoch|step|[dgq]|gen|disc|generator|"
    r"discriminator|actor|critic|policy|value)$",
    re.IGNORECASE,
)
"""Words that belong to the name behind them, beside those of `names`."""
PHASE = re.compile(
    r"^[\W\d]{0,40}(?:\w{1,24}[\s:.-]{1,8}){0,4}?(?:on )?"
    r"(?:test|val|valid|validation|eval|evaluation|testing|evaluating|validating|dev)\b"
    r"(?:[ _-]?(?:set|error|errors|results?|metrics|summary|epoch|performance|phase|step))?"
    r"[\]\s]*(?:\[[^\]]{0,40}\]|[\d/\s]{1,40})?"
    r"(?:[:|>-]|\]|$)|^\s*\*\s",
    re.IGNORECASE,
)
"""A line about validation: `Test set: ...`, `[val] ...`, the summary ` * Acc@1 76.1` of PyTorch's example."""
SETTINGS = re.compile(
    r"^\W*(?:(?!(?-i:WARNING)\b)\w*(?:namespace|config|args|arguments|parameters|settings|usage|saving|saved|loading"
    r"|loaded|warning|traceback)\b)|^(?-i:[A-Z]\w*(?:Error|Exception))\b",
    re.IGNORECASE,
)
"""Lines about something else. `WARNING`, as it is written there, is the level of a record."""
BARE = re.compile(r"^[\W_]*(?:(?:start|begin)(?:ning)?(?:ing)? (?:of )?)?epochs?\W{0,3}\d+(?:\s*(?:/|of)\s*\d+)?[\W_]*"
                  r"(?:started|starting|start|begins?|done|finished|completed?|ended|end)?[\W_]*$",
                  re.IGNORECASE)  # fmt: skip
"""A line that says which epoch it is, and nothing else."""
CLOSING = re.compile(r"^\s*(?:$|[,;|)\]}'\"%(]|\.(?:\s|$)|[-–]\s|[A-Za-z_][\w@/.\-]*(?:\s[A-Za-z]+)?\s*[=:])")
"""What may follow a number that could be one in a sentence: "error 0.5 of" is none."""

NEXT = re.compile(r"^\s+[A-Za-z_][\w@/.\-]*\s+[-+]?[\d.]")
"""What may follow `nan` besides, which no sentence has behind a metric's name: another name, and its number."""

HEAD = 200
"""Characters that are looked at for what the whole line is about."""


def read(line: str) -> Reading | None:
    """The metrics of a line, or None where it has none."""
    clean = PREFIX.sub(_blank, line)
    if SETTINGS.match(clean):
        return None
    at = step_position(clean)
    values = _values(clean, validation=at.validation or PHASE.match(clean[:HEAD]) is not None)
    if not values and not _announces(clean, at):
        return None
    if any(name.startswith("val_") for name in values) and not any(_trained(name) for name in values):
        at = _of_validation(at)
    return Reading(values=values, step=at.step, epoch=at.epoch, done=at.done, total=at.total, unit=at.unit)


def announces_validation(line: str) -> bool:
    """Whether the next line is about validation: `Test Error:`, and nothing behind it."""
    return len(line) < HEAD and line.rstrip().endswith(":") and PHASE.match(line) is not None


def as_validation(reading: Reading) -> Reading:
    """The same, measured in validation: how far that is, is not how far the training is."""
    values = {name if not _trained(name) else f"val_{name}": value for name, value in reading.values.items()}
    return Reading(values=values, epoch=reading.epoch, step=reading.step)


def _trained(name: str) -> bool:
    return not name.startswith("val_") and name != "learning_rate"


def _of_validation(at: StepPosition) -> StepPosition:
    """A line about validation alone says at which step it was made, but how far it is, is not how far training is."""
    keep = at.unit == "epochs"
    return StepPosition(step=at.step, epoch=at.epoch, done=at.done if keep else None, total=at.total if keep else None,
                 unit=at.unit if keep else "")  # fmt: skip


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _announces(line: str, at: StepPosition) -> bool:
    """Whether a line without values says how far the training is."""
    return (len(line) < HEAD and BARE.match(line) is not None) or (at.step is not None and at.total is not None)


def _values(line: str, *, validation: bool) -> dict[str, float]:
    values: dict[str, float] = {}
    pairs = list(_pairs(line))
    if not any(sure for _, _, sure in pairs):
        return values
    vouched = any(rank(name) == "known" for name, _, _ in pairs)
    for name, value, sure in pairs:
        if not sure and not vouched:
            continue
        words = name.replace("/", "_").split("_")
        phase = words[0].lower()
        if " " in name:
            phase = name.split(" ", 1)[0].lower()
            validation = phase in VALIDATION or (validation and phase not in TRAIN)
        ours = canonical(name)
        if validation and phase not in TRAIN and not ours.startswith("val_") and rank(name) != "plain":
            ours = ours if f"val_{ours}" in values else f"val_{ours}"
        values.setdefault(ours, value)
    return values


def _pairs(line: str) -> Iterator[tuple[str, float, bool]]:
    """(name as the program has it, value, whether the name alone says that it is a metric)."""
    for match in PAIR.finditer(line):
        name = _whole_name(line, match)
        sort = rank(name)
        if is_counter(name) or FILE.fullmatch(match["name"].lower()) or not _plausible(line, match, sort):
            continue
        if (value := _value(match, name)) is not None:
            yield name, value, bool(sort)


def _plausible(line: str, match: re.Match[str], sort: str) -> bool:
    """Whether this can be a value, and not a number in a sentence."""
    text, tight = match["number"], match["sep"].strip() != ""
    whole = text.lstrip("+-").isdigit() and not match["rest"]
    if not tight and not sort:
        return False
    if sort == "cautious" and whole:
        return False
    if sort == "cautious" or (not tight and (whole or not text[-1].isdigit())):
        rest = line[match.end() :]
        unreal = sort == "known" and not text[-1].isdigit() and text[-1] != "."
        return CLOSING.match(rest) is not None or (unreal and NEXT.match(rest) is not None)
    return True


def _whole_name(line: str, match: re.Match[str]) -> str:
    """The name with the words before it that belong to it: "Average loss", "learning rate", "val loss"."""
    name, begin = match["name"], match.start()
    for _ in range(2):
        before = WORD.search(line, max(0, begin - 24), begin)
        if before is None or not (before[1].lower() in TRAIN | VALIDATION | MEANS or WORDS.match(before[1])):
            break
        name, begin = f"{before[1]} {name}", before.start()
    return name


def _value(match: re.Match[str], name: str) -> float | None:
    """A share, as `9903/10000` and `99.03%` are, is a number from 0 to 1."""
    value = number(match["number"])
    if match["of"]:
        of = number(match["of"])
        return value / of if of and "acc" in name.lower() else None
    return value / 100 if match["rest"] else value
