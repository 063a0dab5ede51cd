"""Lines that begin with their step: `[10]  train's auc: 0.97  valid's auc: 0.96`, and metrics alone after it.

LightGBM, XGBoost and CatBoost (`10:  learn: 0.52  test: 0.55`) name the data set of each value. Darknet prints
`10: 3.2, 3.3 avg loss`; clu, the library of Flax programs, `[200] accuracy=0.9, loss=0.1`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from core.metrics.common.names import TRAIN, VALIDATION, canonical, certainty, is_counter
from core.metrics.common.reading import Reading
from core.metrics.dialects.syntax import NUMBER, message

if TYPE_CHECKING:
    from collections.abc import Sequence

BOOSTED = re.compile(
    rf"\[(?P<step>\d{{1,9}})\]\s+(?P<fields>(?:[\w .@-]{{1,40}}(?:'s |-)[^\s:=]{{1,60}}:\s?(?:{NUMBER})"
    rf"(?:\s?\+\s?{NUMBER})?\s*)+)",
    re.IGNORECASE,
)
BOOSTED_FIELD = re.compile(
    rf"(?P<data>[\w .@]{{1,40}}?)(?:'s |-)(?P<name>[^\s:=]{{1,60}}):\s?(?P<number>{NUMBER})"
    rf"(?:\s?\+\s?{NUMBER})?(?:\s+|$)",
    re.IGNORECASE,
)
CATBOOST = re.compile(
    rf"(?P<step>\d{{1,9}}):\s+(?:learn: (?P<learn>{NUMBER})\s+)?(?:test\d*: (?P<test>{NUMBER})\s+)?(?:test1: \S+\s+)*"
    r"(?:best: \S+ \(\d+\)\s+)?total: ",
    re.IGNORECASE,
)
LIGHTGBM = re.compile(
    rf"\[LightGBM\] \[Info\] Iteration: ?(?P<step>\d{{1,9}}), (?P<data>\w{{1,40}}) (?P<name>\S{{1,60}}) : "
    rf"(?P<number>{NUMBER})",
    re.IGNORECASE,
)
DARKNET = re.compile(
    rf"(?P<step>\d{{1,9}}): (?P<loss>{NUMBER}), (?:{NUMBER}) avg loss, (?P<rate>{NUMBER}) rate, ", re.IGNORECASE
)
CLU = re.compile(
    rf"\[(?P<step>\d{{1,12}})\](?: collection=(?P<collection>\w+))? (?P<fields>[\w@/.\-]{{1,60}}=(?:{NUMBER})"
    rf"(?:, [\w@/.\-]{{1,60}}=[^\s,]{{1,40}})*)",
    re.IGNORECASE,
)
CLU_FIELD = re.compile(rf"(?P<name>[\w@/.\-]{{1,60}})=(?P<number>{NUMBER})(?=,|$)", re.IGNORECASE)
TRAINING_DATA = re.compile(r"(?:\w* )?(?:train(?:ing)?|learn|dtrain|tr)(?:_?set|_data)?", re.IGNORECASE)
NUMBERED_DATA = re.compile(r"^valid(?:ation)?_(?=\d)")


def read(line: str) -> Reading | None:
    """Return the reading of such a line; None for any other line."""
    if line.startswith("["):
        if line.startswith("[LightGBM]"):
            return _lightgbm(line)
        if (match := BOOSTED.fullmatch(line)) is not None:
            return _boosted(match)
    elif line[:1].isdigit() and ": " in line[:24]:
        if match := DARKNET.match(line):
            values = {"loss": float(match["loss"]), "learning_rate": float(match["rate"])}
            return Reading(values=values, step=int(match["step"]))
        match = CATBOOST.match(line)
        return _catboost(match) if match else None
    match = CLU.fullmatch(message(line)) if "] " in line and "=" in line else None
    return _clu(match) if match else None


def _lightgbm(line: str) -> Reading:
    """Return the value in a message of LightGBM's command line: its other messages contain scores and gains."""
    match = LIGHTGBM.match(line)
    if match is None:
        return Reading(values={})
    prefix = "" if TRAINING_DATA.fullmatch(match["data"]) else "val_"
    return Reading(values={prefix + canonical(match["name"]): float(match["number"])}, step=int(match["step"]))


def _boosted(match: re.Match[str]) -> Reading | None:
    """Return the values of boosting. One data set besides the training's is the validation; more keep their names."""
    fields = [_named(field) for field in BOOSTED_FIELD.finditer(match["fields"])]
    others = list(dict.fromkeys(data for data, _, _ in fields if not TRAINING_DATA.fullmatch(data)))
    values: dict[str, float] = {}
    for data, name, value in fields:
        values.setdefault(_prefix(data, others) + name, value)
    return Reading(values=values, step=int(match["step"])) if values else None


def _named(field: re.Match[str]) -> tuple[str, str, float]:
    """Return the data set, the metric's name and the value."""
    return field["data"].strip().lower(), canonical(field["name"]), float(field["number"])


def _prefix(data: str, others: Sequence[str]) -> str:
    """Return what a data set adds to the names of its metrics."""
    if data not in others:
        return ""
    if others == [data] or (data in VALIDATION and data not in {"test", "testing"}):
        return "val_"
    return NUMBERED_DATA.sub("val_", data).replace(" ", "_") + "_"


def _catboost(match: re.Match[str]) -> Reading | None:
    """Return CatBoost's values: it does not print the name of its loss function."""
    values = {name: float(match[group]) for name, group in (("loss", "learn"), ("val_loss", "test")) if match[group]}
    return Reading(values=values, step=int(match["step"])) if values else None


def _clu(match: re.Match[str]) -> Reading | None:
    pairs = [(field["name"], float(field["number"])) for field in CLU_FIELD.finditer(match["fields"])]
    metrics = [(name, value) for name, value in pairs if not is_counter(name)]
    if not any(certainty(name) for name, _ in metrics):
        return None
    collection = (match["collection"] or "").lower()
    phase = f"{collection}_" if collection in TRAIN | VALIDATION else ""
    return Reading(values={canonical(phase + name): value for name, value in metrics}, step=int(match["step"]))
