"""Find runs by words and conditions, and sort them: `digits state:failed lr<1e-3 tag:baseline sort:-loss`."""

from __future__ import annotations

import functools
import math
import operator
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import PurePath

from core.history.summary import RunSummary
from core.language import tr
from core.runs.facts import RunState, state_info
from core.text import first_names, join_names

Value = bool | int | float | str | tuple[str, ...] | None
"""What a condition compares: a number, a text, or several texts of which one has to fit. None: the run has none."""

CONDITION = re.compile(r"(?P<key>[A-Za-z][\w./-]*)(?P<sign><=|>=|!=|:|<|>|=)(?P<value>.*)", re.DOTALL)
WORD = re.compile(r'(?:"[^"]*"|\S)+')
"""A part of a search; quotes keep spaces."""
ORDERED: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}
ALIASES = {"lr": "learning_rate", "batch": "batch_size", "steps": "step", "workload": "recipe"}
"""Short names of settings and facts."""
SORT, SETTING = "sort", "setting."
"""The key of the order, and what stands before the name of a setting that a fact has, too."""
ANY = "any"
"""The value of `archived` with which archived runs are found as well as others."""
YES = frozenset({"yes", "true", "1"})
NO = frozenset({"no", "false", "0"})


def _workload(run: RunSummary) -> Value:
    path = run.settings.get("recipe") or run.settings.get("script")
    return (path, PurePath(path).name, PurePath(path).stem) if isinstance(path, str) else None


def _devices(run: RunSummary) -> Value:
    text = run.settings.get("devices")
    return sum(int(number) for number in re.findall(r"(\d+) × ", text)) if isinstance(text, str) else None


FACTS: dict[str, Callable[[RunSummary], Value]] = {
    "archived": lambda run: run.marks.archived,
    "device": lambda run: run.settings.get("devices"),
    "devices": _devices,
    "duration": lambda run: None if run.started is None else (run.ended or time.time()) - run.started,
    "ended": lambda run: run.ended,
    "error": lambda run: run.error,
    "live": lambda run: state_info(run.state).live,
    "loss": lambda run: loss.value if (loss := run.loss) else None,
    "name": lambda run: (run.name, run.dir.name),
    "note": lambda run: tuple(note.text for note in run.marks.notes),
    "owner": lambda run: run.owner,
    "recipe": _workload,
    "script": _workload,
    "star": lambda run: run.marks.star,
    "started": lambda run: run.started,
    "state": lambda run: run.state.value,
    "step": lambda run: run.step,
    "tag": lambda run: run.marks.tags,
    "val_loss": lambda run: run.best_validation[1] if run.best_validation else None,
}
"""What can be asked of every run, by key. Any setting of a run can be asked for, too."""
FLAGS = frozenset({"archived", "live", "star"})
DATES = frozenset({"started", "ended"})
CONTAINED = frozenset({"device", "error", "name", "note", "recipe", "script"})
"""Keys with which a part of the text is enough."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: `lr<1e-3`."""

    key: str
    sign: str
    """`<`, `<=`, `>`, `>=`, `=` (also written `:`) or `!=`."""
    value: str
    number: float | None
    """The value as a number, or a date in unix seconds; None if it is neither."""

    def fits(self, run: RunSummary) -> bool:
        """Return whether a run fits. A run that lacks the value fits no condition but `!=`."""
        found = value_of(run, self.key)
        if self.sign in ORDERED:
            number = as_number(found)
            return self.number is not None and _is_number(number) and ORDERED[self.sign](number, self.number)  # type: ignore[arg-type]
        return self._equals(found) != (self.sign == "!=")

    def _equals(self, found: Value) -> bool:
        if found is None or found == self.value:  # mostly a value is written as it was stored
            return found is not None
        if isinstance(found, bool):
            return self.value.lower() in (YES if found else NO)
        if isinstance(found, (int, float)):
            if self.key in DATES:  # that day
                return datetime.fromtimestamp(found).strftime("%Y-%m-%d").startswith(self.value)  # noqa: DTZ006 (local)
            return self.number is not None and (found == self.number or math.isclose(found, self.number))
        texts, wanted = (found,) if isinstance(found, str) else found, self.value.lower()
        if self.key in CONTAINED:
            return any(wanted in text.lower() for text in texts)
        return any(wanted == text.lower() for text in texts)


@dataclass(frozen=True, slots=True)
class Search:
    """A search. Without words and conditions it finds all runs that are not archived."""

    words: tuple[str, ...] = ()
    """Each has to be in the name, the folder's name, a tag or a note; lower case."""
    conditions: tuple[Condition, ...] = ()
    order: str = ""
    """The key by which the runs are sorted; the empty string for the newest first."""
    descending: bool = False
    text: str = ""
    """What it was made of."""

    def find(self, runs: Iterable[RunSummary]) -> list[RunSummary]:
        """Return the runs that fit, sorted. Runs that lack the key of the order are last, in the order given."""
        mentioned = any(each.key == "archived" for each in self.conditions)
        conditions = [each for each in self.conditions if not (each.key == "archived" and each.value == ANY)]
        found = [run for run in runs if mentioned or not run.marks.archived]
        for condition in conditions:
            found = [run for run in found if condition.fits(run)]
        for word in self.words:
            found = [run for run in found if any(word in text for text in _texts(run))]
        return self._sorted(found) if self.order else found

    def unknown_keys(self, runs: Sequence[RunSummary]) -> list[str]:
        """Return the keys that no run could have: none if any run has a setting of that name."""
        wanted = [*(each.key for each in self.conditions), *([self.order] if self.order else [])]
        unknown = [key for key in wanted if key not in FACTS]
        return [key for key in unknown if not any(name in run.settings for name in names_of(key) for run in runs)]

    def _sorted(self, found: list[RunSummary]) -> list[RunSummary]:
        keys = [(as_number(value_of(run, self.order)), run) for run in found]
        numbers = [(value, run) for value, run in keys if _is_number(value) or isinstance(value, bool)]
        texts = [
            ((value if isinstance(value, str) else ", ".join(value)).lower(), run)
            for value, run in keys if isinstance(value, (str, tuple)) and value
        ]
        # In both directions runs with equal values keep their order: the newest first.
        numbers.sort(key=lambda pair: pair[0], reverse=self.descending)  # type: ignore[arg-type,return-value]  # numbers
        texts.sort(key=lambda pair: pair[0], reverse=self.descending)
        placed = [run for _, run in numbers] + [run for _, run in texts]
        known = set(map(id, placed))
        return placed + [run for run in found if id(run) not in known]


def parse_search(text: str) -> Search:
    """Return the search that a text describes. Raises `ValueError` with a sentence for a condition that cannot be."""
    words, conditions, order, descending = [], [], "", False
    for part in WORD.findall(text):
        found = CONDITION.fullmatch(part)
        if found is None:
            words.append(part.replace('"', "").lower())
            continue
        key, value = found["key"], found["value"].replace('"', "")
        if key.lower() == SORT:
            order, descending = _key(value.removeprefix("-")), value.startswith("-")
            continue
        conditions.append(_condition(_key(key), found["sign"].replace(":", "="), value, part))
    return Search(tuple(filter(None, words)), tuple(conditions), order, descending, text.strip())


def unknown_sentence(keys: Sequence[str]) -> str:
    """Return that no run has something of these names."""
    known = join_names(sorted([*FACTS, SORT]))
    return tr("No run has {keys}. Search for words, for a setting such as lr or framework, or for {known}.",
              keys=join_names(first_names(list(keys)), last="or"), known=known)


def value_of(run: RunSummary, key: str) -> Value:
    """Return what a run has under a key; None if it has nothing."""
    return _reader(key)(run)


@functools.cache
def _reader(key: str) -> Callable[[RunSummary], Value]:
    """Return the function that reads what a run has under a key: a search asks thousands of runs."""
    if fact := FACTS.get(key):
        return fact
    names = names_of(key)

    def setting(run: RunSummary) -> Value:
        for name in names:
            if name in run.settings:
                return run.settings[name]
        return None

    return setting


def names_of(key: str) -> tuple[str, ...]:
    """Return the names that a setting may have: its own, the long one, and those of arguments of scripts."""
    key = key.removeprefix(SETTING)
    dashed = key.replace("_", "-")
    found = (key, ALIASES.get(key, key), f"--{key}", f"--{dashed}", f"-{key}", f"recipe.{key}")
    return tuple(dict.fromkeys(found))


def key_of(name: str) -> str:
    """Return the shortest key by which a search finds a setting: `lr` for `learning_rate` or `--lr`."""
    plain = next((short for short, long in ALIASES.items() if long == name), name.lstrip("-"))
    return plain if name in names_of(plain) and _key(plain) not in FACTS else f"{SETTING}{name}"


def _key(text: str) -> str:
    lower = text.lower()
    fact = ALIASES.get(lower, lower)
    return fact if fact in FACTS else text


def _condition(key: str, sign: str, value: str, part: str) -> Condition:
    number = _date(value) if key in DATES else _number(value)
    if not value:
        raise ValueError(tr("{part!r} lacks a value. Write it behind, without a space.", part=part))
    if sign in ORDERED and number is None:
        wanted = tr("a date such as 2026-01-31") if key in DATES else tr("a number")
        raise ValueError(tr("{part!r} compares with {value!r}. Give {wanted}.", part=part, value=value, wanted=wanted))
    if key == "state" and value.lower() not in {state.value for state in RunState}:
        names = join_names([state.value for state in RunState], last="or")
        raise ValueError(tr("There is no state {value!r}. A run is {names}.", value=value, names=names))
    if key in FLAGS and value.lower() not in YES | NO | ({ANY} if key == "archived" else set()):
        raise ValueError(tr("{part!r} is neither yes nor no. Give {key}:yes or {key}:no.", part=part, key=key))
    return Condition(key, sign, value.lower() if key in FLAGS else value, number)


def _number(text: str) -> float | None:
    try:
        return float(text.replace("_", ""))
    except ValueError:
        return None


def as_number(value: Value) -> Value:
    """Return a text as the number that it is: arguments of scripts are texts."""
    number = _number(value) if isinstance(value, str) else None
    return value if number is None else number


def _date(text: str) -> float | None:
    """Return the unix seconds of the beginning of a day, or of a time: `2026-01-31`, `2026-01-31T12:00`."""
    try:
        return datetime.fromisoformat(text).timestamp() if "T" in text else datetime.combine(
            date.fromisoformat(text), datetime.min.time()
        ).timestamp()
    except (ValueError, OverflowError):
        return None


def _is_number(value: Value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)


def _texts(run: RunSummary) -> Iterable[str]:
    for text in (run.name, run.dir.name, *run.marks.tags, *(note.text for note in run.marks.notes)):
        yield text.lower()
