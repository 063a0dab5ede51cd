"""Apply rules to the lines of a log. What they say wins over the dialects; the rest of a line is left to these."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from core.language import tr
from core.metrics.common.reading import Reading
from core.metrics.rules.rule import EPOCH, METRIC, STEP, parse_rule, words_of
from core.schema.spec import MAX_RULES
from core.text import one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from core.metrics.rules.rule import Claim, Rule

BLANK = "_"
"""Takes the place of the digits that a rule has claimed, so that no dialect reads them."""
SHOWN_CHARACTERS = 80
WHOLE = 2**53


class RuleSet:
    """The rules of one log, in their order: the first that claims a number has it."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self.matched = [0] * len(self.rules)
        """The number of lines that each rule matched."""
        self._headers = {words_of(rule.header) for rule in self.rules if rule.header}
        self._header: tuple[str, ...] = ()
        """The header that came last."""
        self._step: int | None = None
        """The step that a rule found in the last line that has one."""
        self._placed: set[str] = set()
        """The metrics that had a value at this step: further values without a step of their own have another one."""
        self._conflict = ""
        self._lines = 0

    @property
    def words(self) -> tuple[bytes, ...] | None:
        """Texts of which each line that a rule matches has one; None if every line may match."""
        if any(rule.header or not rule.word for rule in self.rules):
            return None
        return tuple({rule.word.encode() for rule in self.rules})

    def taught(self, line: str) -> tuple[str, Reading | None]:
        """Return a line without the numbers that the rules claim, and what they say; None if they say nothing."""
        self._lines += 1
        claims = self._claims(line)
        if not claims:
            self._note_header(line)
            return line, None
        values = {claim.role.removeprefix(METRIC): claim.value for claim in claims if claim.role.startswith(METRIC)}
        step, epoch = _number(claims, STEP), _number(claims, EPOCH)
        if step is not None and step.is_integer() and abs(step) < WHOLE:
            self._step, self._placed = int(step), set()
        says = values or step is not None or epoch is not None
        return _blanked(line, claims), Reading(values=values, step=self.step_of(values), epoch=epoch) if says else None

    def step_of(self, metrics: Collection[str]) -> int | None:
        """Return the step for the next value of these metrics; None if one of them has a value at the last step."""
        if not self._placed.isdisjoint(metrics):
            return None
        self._placed.update(metrics)
        return self._step

    @property
    def problems(self) -> list[str]:
        """Sentences on rules that match nothing, and on numbers that two rules claim; for the end of the log."""
        found = [self._conflict] if self._conflict else []
        if self._lines:
            found += [
                tr("The rule {rule!r} matches no line of the log.", rule=str(rule))
                for rule, count in zip(self.rules, self.matched, strict=True)
                if not count
            ]
        return found

    def claims(self, line: str) -> list[Claim]:
        """Return what the rules say about the numbers of a line, without counting it; headers are not needed."""
        return _first_ones([found for rule in self.rules if (found := rule.claims(line)) is not None])

    def _claims(self, line: str) -> list[Claim]:
        found: list[list[Claim]] = []
        owners: list[Rule] = []
        for index, rule in enumerate(self.rules):
            if rule.header and words_of(rule.header) != self._header:
                continue
            claims = rule.claims(line)
            if claims is not None:
                self.matched[index] += 1
                found.append(claims)
                owners.append(rule)
        if len(found) > 1 and not self._conflict:
            self._conflict = _conflict(line, found, owners)
        return _first_ones(found)

    def _note_header(self, line: str) -> None:
        if self._headers and (words := words_of(line)) in self._headers:
            self._header = words


def parse_rules(texts: Sequence[str]) -> list[Rule]:
    """Return the rules of a spec or a file. Raises `ValueError` with a sentence for one that cannot be used."""
    return [parse_rule(text) for text in texts]


def usable_rules(texts: Sequence[str]) -> list[Rule]:
    """Return those rules of a spec that can be used: its file was checked, but a run directory is not trusted."""
    rules = []
    for text in texts[:MAX_RULES]:
        with contextlib.suppress(ValueError):
            rules.append(parse_rule(text))
    return rules


def _first_ones(found: Sequence[Sequence[Claim]]) -> list[Claim]:
    """Return the claims, without those on a number that an earlier rule has claimed."""
    taken: dict[int, Claim] = {}
    for claims in found:
        for claim in claims:
            if not any(each.begin < claim.end and claim.begin < each.end for each in taken.values()):
                taken[claim.begin] = claim
    return [taken[begin] for begin in sorted(taken)]


def _conflict(line: str, found: Sequence[Sequence[Claim]], owners: Sequence[Rule]) -> str:
    """Return a sentence if two rules say different things about one number; else the empty string."""
    first: dict[tuple[int, int], tuple[Claim, Rule]] = {}
    for claims, rule in zip(found, owners, strict=True):
        for claim in claims:
            earlier, owner = first.setdefault((claim.begin, claim.end), (claim, rule))
            if earlier.role != claim.role:
                return tr(
                    "Two rules claim the number {number} of the line {line!r}: {first!r} and {second!r}. "
                    "The first is used.",
                    number=line[claim.begin : claim.end],
                    line=one_line(line, SHOWN_CHARACTERS),
                    first=str(owner),
                    second=str(rule),
                )
    return ""


def _blanked(line: str, claims: Sequence[Claim]) -> str:
    for claim in claims:
        line = line[: claim.begin] + BLANK * (claim.end - claim.begin) + line[claim.end :]
    return line


def _number(claims: Sequence[Claim], role: str) -> float | None:
    return next((claim.value for claim in claims if claim.role == role), None)
