"""Fields between vertical lines: `iteration 10/100 | lm loss: 8.1E+00 | grad norm: 2.3`.

Megatron, fairseq and LitGPT print so. Each is recognised by the words that only it prints.
"""

from __future__ import annotations

import re

from core.metrics.common.names import canonical, certainty, is_counter
from core.metrics.common.reading import Reading
from core.metrics.dialects.syntax import NUMBER

MEGATRON = re.compile(r"(?:^|\s)iteration\s+(?P<step>\d+)/\s*(?P<total>\d+) \|(?P<fields>.*)")
MEGATRON_VALIDATION = re.compile(
    r"(?:^|\s)(?:validation loss at )?iteration (?P<step>\d+)(?: on (?P<data>validation|test) set)? \|(?P<fields>.*)"
)
MEGATRON_FIELD = re.compile(rf"\s*(?P<name>[A-Za-z][\w ()/\-]{{0,60}}?):?\s+(?P<number>{NUMBER})\s*", re.IGNORECASE)
FAIRSEQ = re.compile(
    r"(?:^|\| )(?P<phase>train_inner|train|valid\w*) \| epoch (?P<epoch>\d+)(?::\s*(?P<n>\d+) / (?P<total>\d+) | \| )"
    r"(?:valid on '[^']*' subset \| )?(?P<fields>.*)"
)
FAIRSEQ_FIELD = re.compile(rf"(?:^|[|,]\s)\s*(?P<name>[a-z][\w@/.]{{0,60}})[= ](?P<number>{NUMBER})(?=$|,| \|)")
FAIRSEQ_OTHERS = re.compile(r"ups|wps|wpb|bsz|clip|loss_scale|gb_free|wall|train_wall|num_updates|best_\w+|.*_wall")
LITGPT = re.compile(
    rf"Epoch (?P<epoch>\d+) \| iter (?P<step>\d+) step \d+ \| loss train: (?P<train>{NUMBER}), "
    rf"val: (?P<val>{NUMBER}|n/a) \|",
    re.IGNORECASE,
)


def read(line: str) -> Reading | None:
    """Return the reading of such a line; None for any other line."""
    if " |" not in line:
        return None
    if "iteration" in line:
        match = MEGATRON.search(line) or MEGATRON_VALIDATION.search(line)
        return _megatron(match) if match else None
    if "epoch " in line and (match := FAIRSEQ.search(line)):
        return _fairseq(match)
    return None


def read_litgpt(line: str) -> Reading | None:
    """Return the reading of LitGPT's line, with the loss of the last validation; None for any other line."""
    match = LITGPT.search(line) if "loss train:" in line else None
    return _litgpt(match) if match else None


def _megatron(match: re.Match[str]) -> Reading | None:
    found = match.groupdict()
    validation = "total" not in found
    values: dict[str, float] = {}
    for part in match["fields"].split("|"):
        field = MEGATRON_FIELD.fullmatch(part)
        written = field["name"].replace("_", " ").lower() if field else ""
        if field and _is_megatron_metric(written):
            name = canonical(written.removesuffix(" value").removeprefix("lm ").replace("loss ppl", "ppl"))
            values.setdefault(f"val_{name}" if validation else name, float(field["number"]))
    if found.get("data") == "test":
        return Reading(values={})  # after the training
    if not any(certainty(name) == "known" for name in values):
        return None
    step = int(match["step"])
    if validation:
        return Reading(values=values, step=step)
    return Reading(values=values, step=step, done=float(step), total=float(match["total"]), unit="steps")


def _is_megatron_metric(name: str) -> bool:
    if name == "loss scale" or name.startswith("number of") or "per iteration" in name or is_counter(name):
        return False
    return (
        name in {"learning rate", "grad norm"}
        or "loss" in name.split()
        or name.endswith(("loss", " PPL", "loss value"))
    )


def _fairseq(match: re.Match[str]) -> Reading | None:
    """Return fairseq's values. An epoch's mean has no step: it is no value beside those of the steps."""
    fields = [(field["name"], float(field["number"])) for field in FAIRSEQ_FIELD.finditer(match["fields"])]
    values = {canonical(name): value for name, value in fields if not FAIRSEQ_OTHERS.fullmatch(name)}
    if not any(certainty(name) for name in values):
        return None
    updates = next((int(value) for name, value in fields if name == "num_updates"), None)
    epoch = float(match["epoch"])
    if match["phase"].startswith("valid"):
        if match["n"]:
            return Reading(values={})  # of one batch
        values = {f"val_{name}": value for name, value in values.items()}
        return Reading(values=values, step=updates, epoch=epoch)
    return Reading(values=values, step=updates if match["phase"] == "train_inner" else None, epoch=epoch)


def _litgpt(match: re.Match[str]) -> Reading:
    values = {"loss": float(match["train"])}
    if match["val"] != "n/a":
        values["val_loss"] = float(match["val"])
    return Reading(values=values, step=int(match["step"]), epoch=float(match["epoch"]))
