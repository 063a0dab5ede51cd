"""What the dialects share: how a number is written, and how a line names its step, its epoch and its progress."""

from __future__ import annotations

import re
from dataclasses import dataclass

NUMBER = r"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?|nan|inf(?:inity)?)"
"""A number in a line. Compile it with IGNORECASE."""
ALONE = rf"(?!,{NUMBER}(?:[\s,;|)\]]|$))"
"""After a number that is not the beginning of a list, such as `0.5,0.6`, nor of a number with a decimal comma."""
PLACE = re.compile(
    r"(?<![\w.@/\\-])(?:(?P<epoch>epoch|epochs(?=\W*\d+\s*(?:/|of))|ep|"
    r"(?P<named>train(?:ing)?)(?=\s*:?\s*(?:\d+|\[\d+(?:/\d+)?\])\s*\[\s*\d+/\d))"
    r"|(?<!\bVal )(?P<step>(?:global[_ ]|train(?:ing)?[_ ])?(?:steps?|iter(?:ation)?s?|itr?)|num_updates|num_timesteps|"
    r"(?:episode|update|timestep|round|generation|rollout)s?|"
    r"(?:num_)?(?:sample|example|image|token)s[_ ](?:seen|processed))"
    r"|(?P<batch>batch(?:es)?|minibatch))(?:\s*\((?P<phase>\w+)\))?(?P<sep>\s*[:=#]\s*|\s+|(?=\[))\[?\s*"
    r"(?P<n>\d+(?:\.\d+)?)(?!\s+Val steps:)(?P<closed>\s*\])?(?![\w%]|\.\d|-\w)"
    r"(?:\s*(?:/|of)\s*(?P<total>\d+)(?![\w.]))?\s*\]?"
    r"(?:\s*[\[(]\s*(?P<inner>\d+)\s*/\s*(?P<of>\d+)(?P<percent>\s*\(\s*\d+(?:\.\d*)?\s*%\s*\))?\s*[\])])?",
    re.IGNORECASE,
)
"""`epoch 3`, `Epoch: 3/10`, `Epoch [3/10]`, `iter 10`, `step=10`, `Batch 3 of 10`. Brackets after it hold the progress
within the epoch: `Epoch: [3][ 10/391]`; with a percentage it counts samples: `Train Epoch: 1 [640/60000 (1%)]`.
timm and Swin write `Train: 0 [ 10/391 (3%)]` and `Train: [0/300][10/391]`, which count batches."""
IN_EPOCH = (
    re.compile(r"^\W*\[\s*(?P<epoch>\d+)\s*,\s*\d+\s*\]\s*loss"),
    re.compile(
        r"^\W*?\[\s*(?P<epoch>\d+)\s*/\s*(?P<epochs>\d+)\s*\]\s*[\[(]\s*(?P<done>\d+)\s*/\s*(?P<total>\d+)\s*[\])]"
    ),
    re.compile(r"^\W*(?:train|val|test|eval)[a-z]*\s*\(\s*(?P<epoch>\d+)\s*/\s*(?P<epochs>\d+)\s*\)",
               re.IGNORECASE),
    re.compile(r"^(?:\[[a-z]+(?: \d+)?\]){1,3}\((?P<done>\d+)/(?P<total>\d+)\)", re.IGNORECASE),
    re.compile(r"^\W*?\[\s*(?P<epoch>\d+)\s*:\s+(?P<done>\d+)\s*/\s*(?P<total>\d+)\s*\]"),
)
"""PyTorch's tutorial: `[1,  2000] loss: 2.173` is epoch 1, batch 2000 of the epoch. DCGAN: `[0/25][10/1583]` is batch
10 of epoch 0. Catalyst: `train (1/10)`. DGL-KE: `[proc 0][Train](10/1583)`. PointNet: `[0: 10/1583]` is that batch,
too."""
LEADING = re.compile(
    r"^\W*?\[\s*(\d+)\s*/\s*(\d{3,})\s*\]\s*\w"
    r"|^(\d+)\s*/\s*(\d+)(?:,\s+[a-z]|\s+(?P<epoch>\(epoch\b))",
    re.IGNORECASE,
)
"""`[2000/300000] loss`, MONAI's `1/32, train_loss`, char-rnn's `1/21150 (epoch 0.002)`. A small total in brackets may
be that of processes."""
LEADING_STEP = re.compile(r"^\[?\s*(\d+)\s*\|\s")
"""llama2.c's `100 | loss 7.1`."""
BRACKETS = re.compile(r"\[\s*(\d+)\s*/\s*(\d+)\s*\]")

COUNTED = re.compile(r"(?<![\w.])(\d+)\s*/\s*(\d+)\s+(?:batches|steps|iters|iterations)\b", re.IGNORECASE)
"""PyTorch's language model: `|   200/ 2983 batches |`."""


@dataclass(slots=True)
class StepPosition:
    """Where a line belongs in the training. None: the line does not say."""

    step: int | None = None
    epoch: float | None = None
    done: float | None = None
    total: float | None = None
    unit: str = ""
    epochs: float | None = None  # the total number of epochs
    validation: bool = False  # mmengine's `Epoch(val)`


def step_position(line: str) -> StepPosition:
    """Return where a line belongs."""
    found = StepPosition()
    for pattern in IN_EPOCH:
        if match := pattern.match(line):
            for name, number in match.groupdict().items():
                setattr(found, name, float(number))
            found.unit = "" if found.done is None else "steps"
            return found
    places = list(PLACE.finditer(line))
    for match in places:
        _add(found, match)
    if found.done is None and (counted := COUNTED.search(line)):
        found.done, found.total, found.unit = float(counted[1]), float(counted[2]), "steps"
    if found.done is None and found.step is None:
        _add_leading(found, line)
    if found.done is None and found.step is None:
        spans = [place.span() for place in places]  # `Epoch [1/4]` counts epochs only
        counts = (each for each in BRACKETS.finditer(line) if all(not a <= each.start() < b for a, b in spans))
        if brackets := next(counts, None):
            found.done, found.total = float(brackets[1]), float(brackets[2])
    if found.done is None and found.epoch is not None and found.epochs is not None:
        found.done, found.total, found.unit = found.epoch, found.epochs, "epochs"
    return found


def _add_leading(found: StepPosition, line: str) -> None:
    """Note the count at the beginning of a line."""
    if leading := LEADING.match(line):
        found.done, found.total = (float(number) for number in leading.groups()[:4] if number is not None)
        found.unit = "steps"
        if leading["epoch"]:  # a part of an epoch; the count is over all of them
            found.step, found.epoch = int(found.done), None
    elif leading := LEADING_STEP.match(line):
        found.step = int(leading[1])


def _add(found: StepPosition, match: re.Match[str]) -> None:
    n, total = float(match["n"]), float(match["total"]) if match["total"] else None
    found.validation |= (match["phase"] or "").lower() in {"val", "test"}
    if match["epoch"] and found.epoch is None:
        found.epoch, found.epochs = n, total
        if match["inner"]:
            found.done, found.total = float(match["inner"]), float(match["of"])
            found.unit = "" if match["percent"] and not match["named"] else "steps"
    elif match["step"] and n.is_integer() and found.step is None:
        if total is not None:
            found.done, found.total, found.unit = n, total, "steps"
        if total is None or found.epoch is None:  # with a total and an epoch on the line, it counts within the epoch
            found.step = int(n)
    elif match["batch"] and total is not None:
        found.done, found.total, found.unit = n, total, "steps"
    elif match["batch"] and found.step is None and n.is_integer() and "=" not in match["sep"]:
        found.step = int(n)


RECORD = re.compile(
    r".{0,120}?\b(?:INFO|WARNING|DEBUG|NOTICE)\b(?::[\w.]{1,40}:|\]?\s*[:|\-]?\s*)"
    r"|[IWD]\d{4} [\d:. ]{1,40}\d \S+:\d+\]\s+"
)
"""What a logger prints before a message: `2026-05-01 10:00:00,123 - INFO - `, `I0501 10:00:00.1 140 train.py:48] `."""


def message(line: str) -> str:
    """Return the message of a log record; the line itself if it is none."""
    match = RECORD.match(line)
    return line[match.end() :] if match else line
