"""Find the numbers of a log's line that became values of the run: their metric and their step."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from core.arrays import np
from core.metrics.dialects.registry import statement_of
from core.metrics.rules.rule import METRIC, NUMBER
from core.metrics.rules.rule_set import RuleSet, usable_rules
from core.series.run_series import RunSeries
from core.series.series import Series

VALIDATION = "val_"
RECENT = 20_000
"""Values at the end of a curve that are searched first: they are the ones of the lines that are shown mostly."""
MOST = 500_000
"""Values at the end of a curve that are searched at all."""
DECIMALS = re.compile(r"\d\.\d{2,}")
"""A number with so many digits that an equal value of a curve is hardly a coincidence."""
MAX_CHARACTERS = 1000
MAX_LINES = 2000
"""Lines to remember."""
CLOSE = 1e-7


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNumber:
    """A number of a line, by its characters, that is a value of a metric."""

    begin: int
    end: int
    metric: str
    step: int

    @property
    def is_validation(self) -> bool:
        """Whether the metric is drawn in the colour of validations."""
        return self.metric.startswith(VALIDATION)


class LogNumbers:
    """Knows the numbers in the log of one rank of a run."""

    def __init__(self, run_series: RunSeries, rules: Sequence[str], rank: int) -> None:
        self._run_series, self._suffix = run_series, f"@{rank}" if rank else ""
        self._rules = RuleSet(usable_rules(rules))
        self._known: dict[str, tuple[LogNumber, ...]] = {}
        self._version = -1

    def of_line(self, line: str) -> tuple[LogNumber, ...]:
        """Return the numbers of a line that are recorded as values of a metric."""
        version = self._run_series.version
        if len(self._known) > MAX_LINES or version != self._version:
            self._known = {text: found for text, found in self._known.items() if found and version > self._version}
            self._known = {} if len(self._known) > MAX_LINES else self._known
            self._version = version
        found = self._known.get(line)
        if found is None:
            found = self._known[line] = tuple(self._search(line))
        return found

    def _search(self, line: str) -> list[LogNumber]:
        if len(line) > MAX_CHARACTERS:
            return []
        found = [
            LogNumber(begin=claim.begin, end=claim.end, metric=name, step=step)
            for claim in self._rules.claims(line)
            if claim.role.startswith(METRIC)
            and (name := claim.role.removeprefix(METRIC))
            and (step := self._step(name, claim.value, None)) is not None
        ]
        taken = {each.begin for each in found}
        reading = statement_of(line).reading
        names = dict(reading.values) if reading else {}
        for match in NUMBER.finditer(line):
            if match.start() not in taken:
                found += self._known_value(match, names, reading.step if reading else None)
        return sorted(found, key=lambda each: each.begin)

    def _known_value(self, match: re.Match[str], names: dict[str, float], step: int | None) -> list[LogNumber]:
        """Return the number if it is a value of one of the names, or, with many digits, of any metric."""
        value = float(match[0].replace(",", ""))
        said = [name for name, each in names.items() if _same(each, value) or _same(each, value / 100)]
        candidates = [(name, names[name]) for name in said]
        candidates += [(f"{VALIDATION}{name}", names[name]) for name in said]
        if not candidates and not names and DECIMALS.search(match[0]):
            candidates = [(name.removesuffix(self._suffix), value) for name in self._run_series.metrics]
        for name, wanted in candidates:
            at = self._step(name, wanted, step)
            if at is not None:
                names.pop(name, None)
                return [LogNumber(begin=match.start(), end=match.end(), metric=name, step=at)]
        return []

    def _step(self, name: str, value: float, step: int | None) -> int | None:
        """Return the step at which a metric has a value: this one if it has it there, else the last one."""
        series = self._run_series.metrics.get(name + self._suffix)
        if series is None or not len(series):
            return None
        if step is not None:
            at = int(np.searchsorted(series.steps, step))
            if at < len(series) and series.steps[at] == step and _same(float(series.values[at]), value):
                return step
        for count in (RECENT, MOST):
            found = _last_of(series, value, count)
            if found is not None:
                return found
        return None


def _last_of(series: Series, value: float, count: int) -> int | None:
    """Return the step of the last of the newest `count` values that equals this one; None if there is none."""
    values = series.values[-count:]
    same = np.isnan(values) if math.isnan(value) else np.isclose(values, value, rtol=CLOSE, atol=0)
    places = np.flatnonzero(same)
    return int(series.steps[-count:][places[-1]]) if len(places) else None


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=CLOSE) or (math.isnan(one) and math.isnan(other))
