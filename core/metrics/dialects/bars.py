"""Progress bars: those of Keras (both styles, and verbose=2) and of tqdm, which Lightning and Hugging Face use.

A bar counts within its own pass: `step` is None, and `done` and `total` are given, in "steps" if it counts them.
`text.position` computes the step in the whole training from the earlier lines.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from core.metrics.common.names import TEST, VALIDATION, canonical, certainty, is_counter
from core.metrics.common.reading import IN_VALIDATION, Reading
from core.metrics.dialects import pairs
from core.metrics.dialects.syntax import NUMBER, PLACE

if TYPE_CHECKING:
    from collections.abc import Iterator

TQDM = re.compile(
    r"\d{1,3}%\|[^|]{0,300}\|\s*(?P<n>\d+(?:\.\d+)?)(?P<n_scale>[kMGTP]?)/"
    r"(?P<total>\d+(?:\.\d+)?)(?P<scale>[kMGTP]?)(?:B|iB)?\s*\[[\d:?]+<[\d:?]+"
    r"(?:,\s*(?P<rate>[^,\]]{1,40}))?(?:,\s*(?P<values>.*))?\]"
)
ENDLESS = re.compile(
    r"(?<![\w.])(?P<n>\d+)(?P<unit>it|step|steps|batch|batches)\s\[[\d:?]+"
    r"(?:,\s*(?P<rate>[^,\]]{1,40}))?(?:,\s*(?P<values>.*))?\]"
)
"""tqdm's bar without a total."""
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
STEPS = frozenset({"it", "step", "steps", "batch", "batches", "iter", "iters", "iteration", "iterations", "update"})
EPOCHS = frozenset({"epoch", "epochs", "ep"})
OVER_EPOCHS = re.compile(r"\bepochs?\W*$", re.IGNORECASE)
"""A bar named "Epochs" counts epochs; one named "Epoch 3" counts the steps of an epoch."""
FIELD = re.compile(
    rf"(?P<name>[A-Za-z_][\w@/.\- ]{{0,63}}?)\s?[=:]\s?(?P<number>{NUMBER})(?P<share>%?)(?=$|[\s,;\]}}])",
    re.IGNORECASE,
)

KERAS = re.compile(
    r"(?<![\w/.])(?P<n>\d+)/(?:(?P<total>\d+)\s+(?:(?:[━╸╺─]+|\[[=>.\s]*\])\s*(?:-\s)?\s*(?=ETA:|\d)|-\s(?=\d+s\s-))|"
    r"Unknown\s+(?:-\s)?(?=\d))(?P<rest>.*)"
)
KERAS_FIELD = re.compile(
    rf"(?<=- )(?P<name>[\w@/.\-]{{1,64}}(?: [\w@/.\-]{{0,64}}\w){{0,3}}): (?P<number>{NUMBER})(?P<share>)(?=$|\s)",
    re.IGNORECASE,
)


def read(line: str) -> Reading | None:
    """Return the reading of a bar; None if the line is not a bar."""
    if match := KERAS.match(line):
        return _keras(match)
    if "[" not in line:
        return None
    match = _found(line)
    return _tqdm(match) if match else None


def title(line: str) -> tuple[str, float | None]:
    """Return the name of the bar on a line, without its numbers, and its total: both equal for all its redraws.

    Keras' bars have no names, and their totals differ: all of them count as one bar.
    """
    if KERAS.match(line):
        return KERAS_BAR, None
    match = _found(line)
    if match is None:
        return "", None
    total = match["total"] if "total" in match.groupdict() else ""
    form = re.sub(r"\d", "0", total) + match["scale"] if total else ""
    name = re.sub(r"[-+]?\d[\d.e+-]*|nan|inf", "#", _name(match)).strip()
    return f"{name}/{form}", float(total) if total else None


def _found(line: str) -> re.Match[str] | None:
    return TQDM.search(line) if "%|" in line else ENDLESS.search(line)


def _name(match: re.Match[str]) -> str:
    """Return the text before a bar."""
    return match.string[max(0, match.start() - MAX_NAME_CHARACTERS) : match.start()].strip(" :|")


def _keras(match: re.Match[str]) -> Reading:
    total = float(match["total"]) if match["total"] else None
    values = dict(_fields(KERAS_FIELD, match["rest"]))
    return Reading(values=values, done=float(match["n"]), total=total, unit="steps")


def _tqdm(match: re.Match[str]) -> Reading:
    fields = match.groupdict()
    name = _name(match)
    named = pairs.read(name)
    values = {**(named.values if named else {}), **dict(_fields(FIELD, fields["values"] or ""))}
    if not any(certainty(key) for key in values):
        values = {}
    done = float(fields["n"]) * SCALES[fields.get("n_scale") or ""]
    total = float(fields["total"]) * SCALES[fields["scale"] or ""] if fields.get("total") else None
    if phase := VALIDATING.search(name):
        of_validation = {key if key.startswith("val_") else f"val_{key}": value for key, value in values.items()}
        of_test = phase[0].lower() in TEST
        return Reading(values=of_validation, done=done, total=total, unit=IN_VALIDATION, of_test=of_test)
    unit = _unit(name, fields)
    if unit is None:
        return Reading(values=values)
    epoch = next((float(place["n"]) for place in PLACE.finditer(f"{name} ") if place["epoch"]), None)
    exact = not fields.get("n_scale")
    if unit == "epochs":
        return Reading(values=values, epoch=done, done=done, total=total, unit=unit)
    return Reading(values=values, epoch=epoch, done=done, total=total, unit="steps" if exact else "")


def _unit(name: str, fields: dict[str, str | None]) -> str | None:
    """Return the unit of a bar: "steps", "epochs", or None for others, such as bytes, files and items."""
    rate = RATE.match(fields.get("rate") or "")
    counted = fields.get("unit") or (rate and (rate["unit"] or rate["inverse"])) or "it"
    if NOT_TRAINING.search(name):
        return None
    if counted in EPOCHS or OVER_EPOCHS.search(name):
        return "epochs"
    return "steps" if counted in STEPS else None


def _fields(field: re.Pattern[str], text: str) -> Iterator[tuple[str, float]]:
    for match in field.finditer(text):
        name = match["name"].strip()
        if not is_counter(name):
            yield canonical(name), float(match["number"]) / (100 if match["share"] else 1)
