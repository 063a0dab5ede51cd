"""Lines that mark what they are about in their own way: NVIDIA's DLLogger, Paddle, TensorFlow's, ESPnet's, CycleGAN's.

`DLL ... - Epoch: 0 Iteration: 10  train.loss : 6.93`, `[Train][Epoch 1/20][Iter: 10/20]lr(LinearWarmup): 0.01, ...`,
`Saving dict for global step 200: accuracy = 0.6, global_step = 200, loss = 1.3`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from core.metrics.common.names import canonical, certainty, is_counter
from core.metrics.common.reading import Reading
from core.metrics.dialects.syntax import NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable

DLL = re.compile(
    r"DLL \d{4}-\d\d-\d\d [\d:.]+ - (?P<parameter>PARAMETER )?(?:(?P<counted>Epoch|Iteration|Global Step|Step): "
    r"(?P<first>\d+) )?(?:Iteration: (?P<iteration>\d+) )?(?:Validation Iteration: (?P<validation>\d+) )?(?P<fields>.*)"
)
DLL_FIELD = re.compile(rf"(?P<name>[\w@/.\-]{{1,60}}) : (?P<number>{NUMBER})(?=\s|$)", re.IGNORECASE)
DLL_JSON = "DLLL {"
PADDLE = re.compile(
    r"\[(?P<phase>Train|Eval)\]\[Epoch (?P<epoch>\d+)(?:/(?P<epochs>\d+))?\]"
    r"\[(?:Iter: ?(?P<n>\d+)/(?P<total>\d+)|(?P<mean>Avg))\](?P<fields>.*)"
)
PADDLE_EVAL = re.compile(r"\[EVAL\] #Images: \d+ (?P<fields>.*)|\bINFO: cur metric, (?P<ocr>.*)")
PADDLE_FIELD = re.compile(
    rf"(?<![\w.])(?P<name>[A-Za-z][\w@]{{0,40}})(?:\(\w*\))?: (?P<number>{NUMBER})(?=$|[\s,])", re.IGNORECASE
)
PADDLE_OTHERS = re.compile(r"(?:avg_)?(?:batch|reader|data)_cost|ips|avg_samples|fps|best_epoch|Images|eta")
ESTIMATOR = re.compile(r"Saving dict for global step (?P<step>\d+): (?P<fields>.*)")
ESTIMATOR_FIELD = re.compile(rf"(?P<name>[\w/.\-]{{1,60}}) = (?P<number>{NUMBER})(?=,|$)", re.IGNORECASE)
ESPNET = re.compile(
    r"(?<!\d)(?P<epoch>\d{1,9})epoch(?::train:\d+-(?P<n>\d+)batch: (?P<train>.*)"
    r"|\sresults: \[train\] .*?\[valid\] (?P<valid>.*))"
)
ESPNET_FIELD = re.compile(rf"(?<![\w.])(?P<name>[a-z]\w{{0,40}})=(?P<number>{NUMBER})(?=,|$)", re.IGNORECASE)
ESPNET_OTHERS = re.compile(r"clip|loss_scale|total_count|optim0_lr\d|.*time")
COQUI = re.compile(rf"^\| > avg_(?P<name>\w{{1,60}}): (?P<number>{NUMBER}) +\([-+]\d[\d.e-]*\)$", re.IGNORECASE)
"""Coqui TTS prints the change since the last one only of a validation."""
CYCLEGAN = re.compile(
    rf"^\(epoch: (?P<epoch>\d+), iters: (?P<step>\d+), time: [\d.]+, data: [\d.]+\),? "
    rf"(?P<fields>(?:\w{{1,40}}: (?:{NUMBER})\s*)+)$",
    re.IGNORECASE,
)


def read(line: str) -> Reading | None:
    """Return the reading of such a line; None for any other line."""
    if line.startswith("DLL"):
        match = DLL.match(line)
        return _dllogger(match) if match else _dllogger_json(line)
    for part, form, reading_of in FORMS:
        if part in line and (match := form.search(line)):
            return reading_of(match)
    return None


def _dllogger(match: re.Match[str]) -> Reading:
    """Return DLLogger's values; none of its settings, its summary, and of the batches of a validation."""
    if match["parameter"] or match["validation"] or not match["first"]:
        return Reading(values={})
    pairs_ = [(field["name"], float(field["number"])) for field in DLL_FIELD.finditer(match["fields"])]
    epoch = float(match["first"]) if match["counted"] == "Epoch" else None
    step = match["iteration"] or (match["first"] if epoch is None else None)
    return Reading(values=_dll_values(pairs_), step=int(step) if step else None, epoch=epoch)


def _dllogger_json(line: str) -> Reading | None:
    """Return the values of DLLogger's lines of JSON: `"step": [epoch, iteration]` or `"step": iteration`."""
    try:
        record = json.loads(line.removeprefix("DLLL "))
    except ValueError:
        return None
    if not isinstance(record, dict) or not isinstance(record.get("data"), dict):
        return None
    at = record.get("step")
    place = [at] if isinstance(at, int) else at
    if record.get("type") != "LOG" or not isinstance(place, list) or not all(isinstance(each, int) for each in place):
        return Reading(values={})
    if not 1 <= len(place) <= 2:
        return Reading(values={})
    numbers = [(name, float(value)) for name, value in record["data"].items() if isinstance(value, (int, float))]
    epoch = float(place[0]) if len(place) == 2 or isinstance(at, list) else None
    return Reading(
        values=_dll_values(numbers), step=place[-1] if len(place) == 2 or epoch is None else None, epoch=epoch
    )


def _dll_values(numbers: list[tuple[str, float]]) -> dict[str, float]:
    named = [(name.replace(".", "_"), value) for name, value in numbers]
    if not any(certainty(name) for name, _ in named):
        return {}
    return {canonical(name): value for name, value in named if not is_counter(name) and not name.endswith("_ips")}


def _paddle(match: re.Match[str]) -> Reading:
    """Return Paddle's values: of a validation the mean only, not those of its batches."""
    values = _fields(PADDLE_FIELD, match["fields"])
    epoch = float(match["epoch"])
    if match["phase"] == "Eval":
        values = {f"val_{name}": value for name, value in values.items()} if match["mean"] else {}
        return Reading(values=values, epoch=epoch)
    if match["mean"]:
        return Reading(values={})
    return Reading(values=values, epoch=epoch, done=float(match["n"]), total=float(match["total"]), unit="steps")


def _estimator(match: re.Match[str]) -> Reading | None:
    return _validation(ESTIMATOR_FIELD, match["fields"], int(match["step"]))


def _paddle_evaluation(match: re.Match[str]) -> Reading | None:
    return _validation(PADDLE_FIELD, match["fields"] or match["ocr"], None)


def _espnet(match: re.Match[str]) -> Reading:
    """Return ESPnet's values: of an epoch those of the validation, since the means of its batches are lines before."""
    fields = ESPNET_FIELD.finditer(match["train"] or match["valid"])
    found = {field["name"]: float(field["number"]) for field in fields if not ESPNET_OTHERS.fullmatch(field["name"])}
    values = {canonical(name if match["train"] else f"val_{name}"): value for name, value in found.items()}
    if match["train"]:
        return Reading(values=values, epoch=float(match["epoch"]), step=int(match["n"]))
    return Reading(values=values, epoch=float(match["epoch"]))


def _coqui(match: re.Match[str]) -> Reading:
    is_metric = not is_counter(match["name"])
    return Reading(values={canonical(f"val_{match['name']}"): float(match["number"])} if is_metric else {})


def _cyclegan(match: re.Match[str]) -> Reading:
    """Return the losses of CycleGAN and pix2pix, whose names say nothing: `G_GAN`, `D_real`, `idt_A`."""
    values = {canonical(field["name"]): float(field["number"]) for field in PADDLE_FIELD.finditer(match["fields"])}
    return Reading(values=values, step=int(match["step"]), epoch=float(match["epoch"]))


def _validation(field: re.Pattern[str], text: str, step: int | None) -> Reading | None:
    values = {f"val_{name}": value for name, value in _fields(field, text).items()}
    return Reading(values=values, step=step) if values else None


def _fields(field: re.Pattern[str], text: str) -> dict[str, float]:
    found = [(match["name"], float(match["number"])) for match in field.finditer(text)]
    return {
        canonical(name): value for name, value in found if not is_counter(name) and not PADDLE_OTHERS.fullmatch(name)
    }


FORMS: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], Reading | None]], ...] = (
    ("[Epoch ", PADDLE, _paddle),
    ("[EVAL]", PADDLE_EVAL, _paddle_evaluation),
    ("cur metric", PADDLE_EVAL, _paddle_evaluation),
    ("Saving dict", ESTIMATOR, _estimator),
    ("(epoch: ", CYCLEGAN, _cyclegan),
    ("| > avg_", COQUI, _coqui),
    ("epoch", ESPNET, _espnet),
)
"""A text that is in each such line, the whole form, and what reads it."""
