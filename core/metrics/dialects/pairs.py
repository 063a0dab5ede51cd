"""Names and numbers in a line of text: `loss: 0.123`, `train_loss=0.3`, `iter 10: loss 4.2, time 12ms`.

A number is a metric's value if it follows a known metric's name, or follows any name and "=" or ":" on a line with
such a metric. Prose, file names, versions, addresses, dates and settings are ignored: if in doubt, nothing is read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from core.metrics.common.names import MEANS, TRAIN, VALIDATION, canonical, certainty, is_counter
from core.metrics.common.reading import Reading
from core.metrics.dialects.syntax import NUMBER, StepPosition, step_position

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = re.compile(
    r"\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?:Z|[-+]\d\d:?\d\d)?|\d\d?/\d\d?/\d{2,4}"
    r"|(?<![\d:])\d{1,3}:\d\d(?::\d\d)?(?:[.,]\d+)?(?![\d:])|\d{1,9}\.\d{1,9}\.\d[\w.]*"
)
"""Dates, times of day, durations, versions and addresses: they are not values and are blanked out."""
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
"""Words that belong to the name after them, besides those in `names`."""
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
"""Lines about something else. `WARNING` in capitals is the level of a log record."""
BARE = re.compile(r"^[\W_]*(?:(?:start|begin)(?:ning)?(?:ing)? (?:of )?)?epochs?\W{0,3}\d+(?:\s*(?:/|of)\s*\d+)?[\W_]*"
                  r"(?:started|starting|start|begins?|done|finished|completed?|ended|end)?[\W_]*$",
                  re.IGNORECASE)  # fmt: skip
"""A line that names an epoch and nothing else."""
CLOSING = re.compile(r"^\s*(?:$|[,;|)\]}'\"%(]|\.(?:\s|$)|[-–]\s|[A-Za-z_][\w@/.\-]*(?:\s[A-Za-z]+)?\s*[=:])")
"""The text that must follow a number that may be part of a sentence: "error 0.5 of" is no metric."""

NEXT = re.compile(r"^\s+[A-Za-z_][\w@/.\-]*\s+[-+]?[\d.]")
"""The text that may follow `nan` instead: another name and its number. No sentence reads so."""

HEAD = 200
"""Characters that say what the whole line is about."""

FILE = re.compile(r".*\.(?:py|cc|cpp|cu|c|h|rs|js|txt|log|json|ya?ml|pth?|ckpt|bin|safetensors|csv|h5|keras|npz?)")


def read(line: str) -> Reading | None:
    """Return the metrics and the position of a line; None if it has neither."""
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
    """Return whether the next line is about validation: this one reads `Test Error:` and ends there."""
    return len(line) < HEAD and line.rstrip().endswith(":") and PHASE.match(line) is not None


def as_validation(reading: Reading) -> Reading:
    """Return the reading with validation names and without progress, which is not that of the training."""
    values = {name if not _trained(name) else f"val_{name}": value for name, value in reading.values.items()}
    return Reading(values=values, epoch=reading.epoch, step=reading.step)


def _trained(name: str) -> bool:
    return not name.startswith("val_") and name != "learning_rate"


def _of_validation(at: StepPosition) -> StepPosition:
    """Return the position of a line about validation alone: its progress is not that of the training."""
    keep = at.unit == "epochs"
    return StepPosition(step=at.step, epoch=at.epoch, done=at.done if keep else None, total=at.total if keep else None,
                 unit=at.unit if keep else "")  # fmt: skip


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _announces(line: str, at: StepPosition) -> bool:
    """Return whether a line without values says where the training is."""
    return (len(line) < HEAD and BARE.match(line) is not None) or (at.step is not None and at.total is not None)


def _values(line: str, *, validation: bool) -> dict[str, float]:
    values: dict[str, float] = {}
    pairs = list(_pairs(line))
    if not any(certain for _, _, certain in pairs):
        return values
    all_are_metrics = any(certainty(name) == "known" for name, _, _ in pairs)
    for name, value, certain in pairs:
        if not certain and not all_are_metrics:
            continue
        words = name.replace("/", "_").split("_")
        phase = words[0].lower()
        if " " in name:
            phase = name.split(" ", 1)[0].lower()
            validation = phase in VALIDATION or (validation and phase not in TRAIN)
        ours = canonical(name)
        if validation and phase not in TRAIN and not ours.startswith("val_") and certainty(name) != "plain":
            ours = ours if f"val_{ours}" in values else f"val_{ours}"
        values.setdefault(ours, value)
    return values


def _pairs(line: str) -> Iterator[tuple[str, float, bool]]:
    """Yield (the program's name, value, whether the name alone says that it is a metric)."""
    for match in PAIR.finditer(line):
        name = _whole_name(line, match)
        name_certainty = certainty(name)
        if is_counter(name) or FILE.fullmatch(match["name"].lower()) or not _plausible(line, match, name_certainty):
            continue
        if (value := _value(match, name)) is not None:
            yield name, value, bool(name_certainty)


def _plausible(line: str, match: re.Match[str], certain: str) -> bool:
    """Return whether the number can be a value, and is not part of a sentence."""
    text, tight = match["number"], match["sep"].strip() != ""
    whole = text.lstrip("+-").isdigit() and not match["rest"]
    if not tight and not certain:
        return False
    if certain == "cautious" and whole:
        return False
    if certain == "cautious" or (not tight and (whole or not text[-1].isdigit())):
        rest = line[match.end() :]
        unreal = certain == "known" and not text[-1].isdigit() and text[-1] != "."
        return CLOSING.match(rest) is not None or (unreal and NEXT.match(rest) is not None)
    return True


def _whole_name(line: str, match: re.Match[str]) -> str:
    """Return the name with the words before it that belong to it: "Average loss", "learning rate", "val loss"."""
    name, begin = match["name"], match.start()
    for _ in range(2):
        before = WORD.search(line, max(0, begin - 24), begin)
        if before is None or not (before[1].lower() in TRAIN | VALIDATION | MEANS or WORDS.match(before[1])):
            break
        name, begin = f"{before[1]} {name}", before.start()
    return name


def _value(match: re.Match[str], name: str) -> float | None:
    """Return the value; a share such as `9903/10000` or `99.03%` becomes a number from 0 to 1."""
    value = float(match["number"])
    if match["of"]:
        of = float(match["of"])
        return value / of if of and "acc" in name.lower() else None
    return value / 100 if match["rest"] else value
