"""Tables: lines that are read with the header or the lines before them, which `text.statements` remembers.

- A header names the columns, and each row has a number for each: skorch, fastai, scikit-learn, spaCy, YOLO. A header is
  recognised by a column that counts and a column with a known metric. A row has a number for each of these.
- A block is one record on many lines of `| key | value |`, as reinforcement learning prints them: Stable-Baselines3,
  Baselines, Spinning Up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from core.metrics.dialects.syntax import NUMBER
from core.metrics.reading import Reading, canonical, certainty, counts, is_counter

MAX_CHARACTERS = 600
"""Characters of a header or a row."""
GAP = re.compile(r"\s{2,}|\t|\s*[|│┃]\s*")
BORDER = " |│┃"
BAR = re.compile(r"\)?:\s+\d{1,3}%.*| \d{1,3}%\|.*")
"""The bar after the columns of YOLO."""
BAR_COUNT = re.compile(r"(?<![\d.])(?P<n>\d+)/(?P<total>\d+)(?![\d.])")
NAME = re.compile(r"[A-Za-z#_][\w@/.():%\-]*(?: [\w@/.():%\-]+){0,2}")
PROSE = re.compile(r"[=,;?!{}<>\"']")
NUMBERED = re.compile(r"(?<![\w@(.\-])\d")
COUNT = re.compile(r"(?P<n>\d{1,15})(?:/(?P<total>\d{1,15}))?")
CELL = re.compile(rf"(?P<number>{NUMBER})(?P<share>%?)", re.IGNORECASE)
CELLS = re.compile(r"\[[^\]]*\]|\S+")
PART = re.compile(NUMBER, re.IGNORECASE)
LIST = re.compile(rf"\[\s*(?:{NUMBER}(?:,?\s+{NUMBER})*)?\s*\]", re.IGNORECASE)
EMPTY = frozenset({"-", "--", "None", "none", "N/A", "n/a", "NA"})
"""Cells of metrics that were not measured."""
COUNTERS: dict[str, Literal["step", "epoch"]] = {"e": "epoch", "#": "step", "round": "step", "epochs": "epoch"}
"""Columns that count, besides those in `names`: spaCy's two, and those of boosting."""
OTHERS = frozenset({"dur", "cp", "instances", "size", "labels", "images", "gpu_mem", "img_size", "eta", "best"})
CLASSES = frozenset({"class", "classes"})
"""The first column of YOLO's validation, whose row `all` is the mean of the classes."""
BOXES = {"p": "precision", "r": "recall", "box(p": "precision"}
PARTS = re.compile(r"(?P<part>\w+)\(P")
"""`Mask(P`, `Pose(P`: this precision and the columns after it are those of masks or poses."""

BLOCK_LINE = re.compile(r"\|\s+(?P<key>[A-Za-z][\w@/.()%\- ]{0,60}?)\s*\|\s*(?P<value>[^\s|]{0,40})\s*\|")
BLOCK_STEPS = ("total_timesteps", "timesteps", "total_steps", "num_timesteps", "totalenvinteracts", "steps", "step",
               "epoch")
"""Keys that say where the training is; the first one that a block has counts."""
BLOCK_OTHERS = re.compile(
    r"n_?updates|serial_timesteps|clip_range.*|(?:.*_)?iterations?|ep_?len.*|mean_ep_length|stop_?iter|.*episodes",
    re.IGNORECASE,
)
REWARDS = re.compile(r"(?:.*[_/])?(?:ep_?rew|mean_reward|return|reward)\w*|\w*(?:EpRet|EpRew)\w*", re.IGNORECASE)


Kind = Literal["step", "epoch", "metric", "uncertain", "other"]


class Column(NamedTuple):
    """One column of a table."""

    kind: Kind
    name: str  # ours


Columns = tuple[Column, ...]


def columns_of(line: str) -> Columns | None:
    """Return the columns that a header names; None if the line is no header."""
    if len(line) > MAX_CHARACTERS:
        return None
    if "%" in line:
        line = BAR.sub("", line)
    elif NUMBERED.search(line):
        return None
    if PROSE.search(line):
        return None
    text = line.strip(BORDER)
    cells = [cell for cell in GAP.split(text) if cell]
    if len(cells) < 2:
        cells = text.split()
    if len(cells) < 2 or not all(map(NAME.fullmatch, cells)):
        return None
    if cells[0].lower() in CLASSES:
        return _of_validation(cells)
    columns = _named_by_phase([Column(_kind(cell), canonical(cell)) for cell in cells])
    kinds = {column.kind for column in columns}
    is_yolo = "gpu_mem" in (cell.lower() for cell in cells)
    return columns if kinds & {"step", "epoch"} and ("metric" in kinds or is_yolo) else None


def is_validation(columns: Columns) -> bool:
    """Return whether a table has one row of metrics, for the epoch that has ended."""
    return not any(column.kind in {"step", "epoch"} for column in columns)


def row(columns: Columns, line: str) -> Reading | None:
    """Return the reading of a row; None if the line is no row of this table."""
    if len(line) > MAX_CHARACTERS:
        return None
    cells = CELLS.findall(BAR.sub("", line).replace("|", " ").replace("│", " ").replace("┃", " "))
    cells = _aligned(columns, cells)
    if len(cells) != len(columns) or (is_validation(columns) and cells[0] != "all"):
        return None
    values: dict[str, float] = {}
    found: dict[str, re.Match[str]] = {}
    for column, cell in zip(columns, cells, strict=True):
        if column.kind in {"step", "epoch"}:
            count = COUNT.fullmatch(cell)
            if count is None:
                return None
            found.setdefault(column.kind, count)
        elif column.kind != "other" and LIST.fullmatch(cell):  # DeepXDE has a number for each of several losses
            parts = PART.findall(cell)
            names = [column.name] if len(parts) == 1 else [f"{column.name}_{at}" for at in range(1, len(parts) + 1)]
            values |= zip(names, map(float, parts), strict=True)
        elif (number := CELL.fullmatch(cell)) is not None:
            if column.kind == "metric" or (column.kind == "uncertain" and not number["number"].isdigit()):
                values.setdefault(column.name, float(number["number"]) / (100 if number["share"] else 1))
        elif column.kind == "metric" and cell not in EMPTY:
            return None
    return _reading(values, found.get("step"), found.get("epoch"), line)


def _reading(values: dict[str, float], step: re.Match[str] | None, epoch: re.Match[str] | None, line: str) -> Reading:
    """Return a row's reading, with its progress in epochs or steps if a count has a total."""
    counted = epoch if epoch is not None and epoch["total"] else step
    done = float(counted["n"]) if counted is not None and counted["total"] else None
    if done is not None and counted is epoch and (bar := BAR.search(line)) and (part := BAR_COUNT.search(bar[0])):
        done += min(float(part["n"]) / max(float(part["total"]), 1.0), 1.0) - 1
    return Reading(
        values=values,
        step=int(step["n"]) if step else None,
        epoch=float(epoch["n"]) if epoch else None,
        done=done,
        total=float(counted["total"]) if counted is not None and done is not None else None,
        unit="" if done is None else "epochs" if counted is epoch else "steps",
    )


def _kind(name: str) -> Kind:
    known = counts(name) or COUNTERS.get(name.lower())
    if known is not None:
        return known
    if is_counter(name) or name.lower() in OTHERS:
        return "other"
    return "metric" if certainty(name) else "uncertain"


def _named_by_phase(columns: list[Column]) -> Columns:
    """Give the metrics of validation their names: those after `train_loss  valid_loss`, as fastai prints them."""
    names = [column.name for column in columns if column.kind in {"metric", "uncertain"}]
    if names[:2] != ["loss", "val_loss"] or any(name.startswith("val_") for name in names[2:]):
        return tuple(columns)
    after = set(names[2:]) - {"learning_rate"}
    return tuple(Column(each.kind, f"val_{each.name}") if each.name in after else each for each in columns)


def _of_validation(cells: list[str]) -> Columns | None:
    """Return the columns of YOLO's validation."""
    columns, part = [Column("other", cells[0])], ""
    for cell in cells[1:]:
        named = PARTS.fullmatch(cell)
        if named and named["part"] != "Box":
            part = f"{named['part'].lower()}_"
        name = "precision" if named else BOXES.get(cell.lower()) or canonical(cell.rstrip(")"))
        is_metric = name in {"precision", "recall"} or certainty(cell) in {"known", "cautious"}
        columns.append(Column("metric" if is_metric else "other", f"val_{part}{name.removeprefix('val_')}"))
    return tuple(columns) if any(column.kind == "metric" for column in columns) else None


def _aligned(columns: Columns, cells: list[str]) -> list[str]:
    """Fill in the empty cells of a row: skorch's marks of events stand before the last column, and may be absent."""
    missing = len(columns) - len(cells)
    if not 0 < missing < len(columns) - 1:
        return cells
    absent = columns[-1 - missing : -1]
    if any(column.kind in {"step", "epoch", "metric"} for column in absent):
        return cells
    return [*cells[:-1], *["-"] * missing, cells[-1]]


def begins_block(line: str) -> bool:
    """Return whether a line can be the first of a block: a section, or a key with a number."""
    if (match := BLOCK_LINE.fullmatch(line)) is None:
        return False
    return PART.fullmatch(match["value"]) is not None or (not match["value"] and match["key"].endswith("/"))


def block(lines: Iterable[str]) -> Reading | None:
    """Return the reading of the lines of a block. None without a step or a metric."""
    numbers, section = {}, ""
    for key, value in (match.groups() for line in lines if (match := BLOCK_LINE.fullmatch(line))):
        if key.endswith("/") and not value:
            section = key
        elif PART.fullmatch(value):
            numbers[section + key] = float(value)
    by_last = {key.rpartition("/")[2].lower(): value for key, value in numbers.items()}
    step = next((by_last[name] for name in BLOCK_STEPS if name in by_last), None)
    if step is None or not step.is_integer():
        return None
    values = {canonical(key): value for key, value in numbers.items() if _is_metric_of_block(key)}
    known = any(certainty(key) or REWARDS.fullmatch(key) for key in numbers)
    return Reading(values=values, step=int(step)) if known and values else None


def _is_metric_of_block(key: str) -> bool:
    section, _, last = key.rpartition("/")
    if section == "time" or last.lower() in BLOCK_STEPS or BLOCK_OTHERS.fullmatch(last):
        return False
    return not is_counter(last) and not is_counter(key)
