"""Progress bars: those of Keras (also verbose=2), tqdm, rich, alive-progress, progressbar2 and kuangliu.

A bar counts within its own pass: `step` is None, and `done` and `total` are given, in "steps" if it counts them.
`text.position` computes the step in the whole training from the earlier lines.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

from core.metrics.dialects import pairs
from core.metrics.dialects.syntax import NUMBER, PLACE, step_position
from core.metrics.reading import IN_VALIDATION, OF_VALIDATION, TEST, VALIDATION, Reading

TQDM = re.compile(
    r"\d{1,3}%\|[^|]{0,300}\|\s*(?P<n>\d+(?:\.\d+)?)(?P<n_scale>[kMGTP]?)/"
    r"(?P<total>\d+(?:\.\d+)?)(?P<scale>[kMGTP]?)(?:B|iB)?(?:\s*\[[\d:?]+<[\d:?]+"
    r"(?:,\s*(?P<rate>[^,\]]{1,40}))?(?:,\s*(?P<values>.*))?\]|(?![\w./])(?P<after>.*))"
)
"""With a format of the program's own, anything may follow the count."""
BARS = (
    ("%|", TQDM),
    ("[", re.compile(r"(?<![\w.])(?P<n>\d+)(?P<unit>it|step|steps|batch|batches)\s\[[\d:?]+"
                     r"(?:,\s*(?P<rate>[^,\]]{1,40}))?(?:,\s*(?P<values>.*))?\]")),
    ("━", re.compile(r"\s[━╸╺]{5,200}\s{1,80}(?:\d{1,3}%\s{1,8})?(?P<n>\d+)/(?P<total>\d+)(?![\w./])(?P<after>.*)")),
    ("█", re.compile(r"\|[█▏▎▍▌▋▊▉ ]{5,200}\|\s(?:[^\w\s]{1,4}\s)?(?P<n>\d+)/(?P<total>\d+) \[\d+%\] in "
                     r"(?P<after>.*)")),
    ("%|", re.compile(r"\[(?P<n>\d+)/(?P<total>\d+)\]\s+\d{1,3}%\|[█▏▎▍▌▋▊▉# ]{0,200}(?P<after>.*)")),
    (" of ", re.compile(r"\s(?P<n>\d+) of (?P<total>\d+)\)? \|[#█=>\- ]{5,200}\|(?P<after>.*)")),
)
"""A text that a bar has, and its form: tqdm with and without a total, rich, alive-progress, ignite, progressbar2."""
RICH = "━"
"""What the bars of rich, and of Keras, are drawn with."""
KERAS_BAR = "keras"
MAX_NAME_CHARACTERS = 400
NOT_TRAINING = re.compile(
    r"download|load|map\b|mapping|filter|token|generat|fetch|shard|process|sav|writ|extract|sanity|predict|convert|"
    r"collect|cach|upload|pack|build|scan|infer",
    re.IGNORECASE,
)
"""Words in the names of bars that do not count training steps."""
VALIDATING = re.compile(rf"\b(?:{'|'.join(sorted(VALIDATION))}|evaluating|validating)\b|evaluat|validat", re.IGNORECASE)
SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
RATE = re.compile(r"[\d.?]+\s?[kMGT]?(?P<unit>[^\d\s/]+?)/s|[\d.?]+s/(?P<inverse>\S+)")
STEPS = frozenset({"it", "step", "steps", "batch", "batches", "iter", "iters", "iteration", "iterations", "update",
                   "trial"})
EPOCHS = frozenset({"epoch", "epochs", "ep"})
OVER_EPOCHS = re.compile(r"\bepochs?\W*$", re.IGNORECASE)
"""A bar named "Epochs" counts epochs; one named "Epoch 3" counts the steps of an epoch."""
LIGHTNING = re.compile(r"Epoch \d+/(?P<last>\d+)\s+[━╸╺]+ \d+/\d+ [\d:]+ • ")
"""Lightning's bar in rich: it counts epochs from 0, and names the last one instead of their number."""
FIELD = re.compile(rf"[a-z_][\w@/.\-]{{0,63}}\s?[=:]\s{{0,8}}{NUMBER}(?=$|[\s%,;|\]])", re.IGNORECASE)
KERAS = re.compile(
    r"(?<![\w/.])(?P<n>\d+)/(?:(?P<total>\d+)\s+(?:(?:[━╸╺─]+|\[[=>.\s]*\])\s*(?:-\s)?\s*(?=ETA:|\d)|-\s(?=\d+s\s-))|"
    r"Unknown\s+(?:-\s)?(?=\d))(?P<rest>.*)"
)
PADDLE = re.compile(r"step\s+(?P<n>\d+)/(?P<total>\d+)\s+(?:\[[=>.]*\]\s)?(?P<rest>- .*/step.*)")
"""Paddle's bar, after `Epoch 1/2` as Keras' bar."""
KERAS_FIELD = re.compile(
    rf"(?<=- )[\w@/.\-]{{1,64}}(?: [\w@/.\-]{{0,64}}\w){{0,3}}: {NUMBER}(?!m?s\b)(?=$|[\s_A-Za-z{{(\[])", re.IGNORECASE
)
CENTRED = re.compile(r"\[[=>#.\-\s]*\s(?P<n>\d+)/(?P<total>\d+)\s[=>#.\-\s]*\]\s(?P<rest>.*)")
"""kuangliu's bar, which counts in its middle: `[====== 12/391 >....]  Step: 23ms | Tot: 2s | Loss: 1.9 | Acc: 29%`."""
TRAINING = re.compile(r"epoch|train|step|iter|batch|\bfit|loss|optimi|learn|round|episode|update|trial", re.IGNORECASE)
"""Words in the names of bars that count training steps. A bar with another name and without metrics counts something
else."""
LETTERS = re.compile(r"[^\W\d_]{2}")


class Drawing(NamedTuple):
    """What one drawing of a bar says, and which bar it is."""

    reading: Reading
    name: str  # without its numbers: equal, like the total, for all drawings of one bar
    total: float | None
    epochs: float | None  # the number of epochs that its line names
    beside: str = ""  # the text after it: perhaps of another stream


def read(line: str) -> Drawing | None:
    """Return what a bar says; None if the line is not a bar.

    Keras' and kuangliu's bars have no names, and their totals differ: all of them count as one bar.
    """
    if match := KERAS.match(line) or PADDLE.match(line) or CENTRED.match(line):
        rest, total = match["rest"], float(match["total"]) if match["total"] else None
        fields = list(KERAS_FIELD.finditer(rest))
        begin, end = (fields[0].start(), fields[-1].end()) if fields else (0, len(rest) * (match.re is CENTRED))
        reading = Reading(values=_values(rest[begin:end]), done=float(match["n"]), total=total, unit="steps")
        return Drawing(reading, KERAS_BAR, None, _epochs(line), rest[end:].strip(" -—") if end else "")
    match = next((bar for holds, form in BARS if holds in line and (bar := form.search(line))), None)
    if match is None:
        return None
    found = dict.fromkeys(("n_scale", "total", "scale", "rate", "unit", "values", "after"), "") | {
        name: text for name, text in match.groupdict().items() if text is not None}
    before = match.string[max(0, match.start() - MAX_NAME_CHARACTERS) : match.start()].strip(" :|")
    name = " ".join(re.sub(r"[-+]?\d[\d.e+-]*|nan|inf", "#", before).split())
    total = float(found["total"]) if found["total"] else None
    beside = line[match.end() :].strip()
    return Drawing(_reading(match, found, before), name, total, _epochs(line), beside)


def _epochs(line: str) -> float | None:
    if lightning := LIGHTNING.match(line):
        return float(lightning["last"]) + 1
    return step_position(line).epochs if "poch" in line else None


def _reading(match: re.Match[str], fields: dict[str, str], name: str) -> Reading:
    """Return the reading of a bar of tqdm and its like."""
    done = float(fields["n"]) * SCALES[fields["n_scale"]]
    total = float(fields["total"]) * SCALES[fields["scale"]] if fields["total"] else None
    has_begun = match.re is TQDM or done  # rich shows some from the beginning
    values = _values(name, match.string[match.end() :], fields["values"], fields["after"] if has_begun else "")
    phase = VALIDATING.search(FIELD.sub("", name))  # `Loss: 0.5, Train: 0.9, Test: 0.8` is none of a test
    if phase and len({key.startswith(OF_VALIDATION) for key in values if key != "learning_rate"}) < 2:
        said = pairs.as_validation(Reading(values=values, of_test=phase[0].lower() in TEST))
        return replace(said, done=done, total=total, unit=IN_VALIDATION)
    unit = _unit(name, fields, metrics=bool(values))
    if unit is None:
        return Reading(values=values)
    epoch = next((float(place["n"]) for place in PLACE.finditer(f"{name} ") if place["epoch"]), None)
    if epoch is not None and LIGHTNING.match(match.string):
        epoch += 1
    if unit == "epochs":
        return Reading(values=values, epoch=done, done=done, total=total, unit=unit)
    is_exact = unit == "steps" and not fields["n_scale"]
    return Reading(values=values, epoch=epoch, done=done, total=total, unit="steps" if is_exact else "")


def _values(*texts: str) -> dict[str, float]:
    return {name: value for text in texts if text for name, value in pairs.values_of(text).items()}


def _unit(name: str, fields: dict[str, str], *, metrics: bool) -> str | None:
    """Return the unit of a bar: "steps", "epochs", "samples", or None for others, such as bytes, files and items."""
    rate = RATE.match(fields["rate"])
    counted = fields["unit"] or (rate and (rate["unit"] or rate["inverse"])) or "it"
    if NOT_TRAINING.search(name) or (not metrics and LETTERS.search(name) and not TRAINING.search(name)):
        return None
    if counted in EPOCHS or OVER_EPOCHS.search(name):
        return "epochs"
    return "steps" if counted in STEPS else "samples" if metrics else None
